"""Sums over clients give the head of the open method."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcof import Fed3R, FedCOF, FedCOFLinearSketch, FedCOFOracle, FedNCM
from fedcof.errors import FewMeansWarning, SettingError, SummaryError
from fedcof.methods import CCVR
from fedcof.privacy.sums import packed, summable_methods, sums_of, unpacked

METHODS = [
    FedNCM(),
    Fed3R(),
    Fed3R(form="lda", ridge=1.0),
    FedCOFOracle(),
    FedCOF(),
    FedCOF(form="lda"),
    FedCOF(means_per_class=2),
    FedCOFLinearSketch(width=3, rho=0.5, shrinkage=0.1),
]
CLASSES = ["cat", "cow", "dog", "emu", "nobody's"]
DIM = 6


def clients_of(seed: int, sizes: list[list[int]]):
    """Samples of each client, from how many it has of every class but the last."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(len(CLASSES), DIM)) * 3
    for counts in sizes:
        labels = np.repeat(CLASSES[: len(counts)], counts)
        index = np.repeat(np.arange(len(counts)), counts)
        yield centres[index] + rng.normal(size=(len(index), DIM)), labels


def totals_of(sums, clients):
    totals = []
    for phase in range(sums.phases):
        each = [
            sums.addends(phase, *samples, totals, rng=np.random.default_rng(k))
            for k, samples in enumerate(clients)
        ]
        assert all({n: a.shape for n, a in one.items()} == sums.layout(phase) for one in each)
        totals.append({name: sum(one[name] for one in each) for name in sums.layout(phase)})
    return totals


def open_head(method, clients):
    summaries = [
        method.summarize(*samples, client_id=f"{k:03}", rng=np.random.default_rng(k))
        for k, samples in enumerate(clients)
    ]
    return method.solve(summaries, screened=True)


dealings = st.lists(
    st.lists(st.integers(0, 4), min_size=4, max_size=4).filter(any), min_size=3, max_size=7
).filter(
    lambda sizes: (
        sum(map(any, zip(*sizes, strict=True))) > 1  # two classes
        and max(sum(column) for column in zip(*sizes, strict=True)) > 1
    )
)


@pytest.mark.filterwarnings("ignore::fedcof.errors.FewMeansWarning")
@pytest.mark.filterwarnings("ignore::fedcof.errors.SingularScatterWarning")
@pytest.mark.parametrize("method", METHODS, ids=repr)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sizes=dealings)
def test_the_sum_over_clients_gives_the_head_of_the_open_method(method, seed, sizes):
    clients = list(clients_of(seed, sizes))
    sums = sums_of(method, CLASSES, DIM)
    expected = open_head(method, clients)
    head = sums.head(totals_of(sums, clients))
    assert head.classes.tolist() == expected.classes.tolist()
    scale = np.abs(expected.weight).max()
    np.testing.assert_allclose(head.weight, expected.weight, rtol=0, atol=1e-6 * scale)
    if expected.bias is not None:
        np.testing.assert_allclose(head.bias, expected.bias, rtol=1e-6, atol=1e-6 * scale)
    assert head.provenance.samples == expected.provenance.samples
    assert head.provenance.method == expected.provenance.method


@pytest.mark.parametrize("method", METHODS, ids=repr)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sizes=dealings)
def test_no_number_of_a_client_is_above_its_bound(method, seed, sizes):
    clients = list(clients_of(seed, sizes))
    radius = max(np.linalg.norm(features, axis=1).max() for features, _ in clients)
    samples = max(len(labels) for _, labels in clients)
    sums = sums_of(method, CLASSES, DIM)
    totals = totals_of(sums, clients)
    for phase in range(sums.phases):
        bounds = sums.bounds(phase, radius, samples, totals[:phase])
        assert bounds.keys() == sums.layout(phase).keys()
        for k, client in enumerate(clients):
            rng = np.random.default_rng(k)
            for name, array in sums.addends(phase, *client, totals[:phase], rng=rng).items():
                assert np.abs(array).max() <= bounds[name] * (1 + 1e-12), name


def test_bounds_are_reached():
    along = np.array([[2.0, 0.0]] * 3)
    gram = sums_of(Fed3R(), [0, 1], 2)
    reached = {n: a.max() for n, a in gram.addends(0, along, [0] * 3).items()}
    assert reached == gram.bounds(0, radius=2.0, samples=3)


def test_the_global_mean_is_weighted_by_samples():
    method = FedCOF()
    clients = [(np.array([[1.0, 0], [2, 1], [9, 4], [0, 7]]), [0, 0, 0, 1])] * 2
    sums = sums_of(method, [0, 1], 2)
    scatter = sums.pooled(totals_of(sums, clients))
    np.testing.assert_allclose(scatter.global_mean, np.mean([c[0] for c in clients], axis=(0, 1)))


def test_the_spread_of_a_class_is_over_the_means_that_there_are():
    near, far = np.array([[0.0, 0], [1, 1]]), np.array([[0.0, 2], [1, 1]])
    other = np.array([[5.0, 5]])
    clients = [(near, [0, 1]), (far, [0, 1]), (other, [1])]  # class 0 has 2 means of 3 clients
    sums = sums_of(FedCOF(), [0, 1], 2)
    phase_one = totals_of(sums, clients)[0]
    assert phase_one["presence"].tolist() == [2, 3]


def test_a_class_outside_the_public_list_is_named():
    with pytest.raises(SummaryError, match="'eel' is not among the 5 classes"):
        sums_of(FedNCM(), CLASSES, 2).addends(0, [[1.0, 2]], ["eel"])


def test_labels_of_another_type_are_named():
    with pytest.raises(SummaryError, match="7 is not among"):
        sums_of(FedNCM(), CLASSES, 2).addends(0, [[1.0, 2]], [7])


def test_features_of_another_length_are_refused():
    with pytest.raises(SummaryError, match="features of length 2, the sums are of length 3"):
        sums_of(FedNCM(), CLASSES, 3).addends(0, [[1.0, 2]], ["cat"])


def test_a_method_that_needs_more_than_sums_is_refused():
    with pytest.raises(SettingError, match="ccvr needs more than sums over clients"):
        sums_of(CCVR(), CLASSES, 2)
    assert "fedcof" in summable_methods()
    assert "ccvr" not in summable_methods()


@pytest.mark.parametrize("method", [FedNCM(robust=True), FedCOF(robust=True)], ids=repr)
def test_a_robust_method_is_refused(method):
    with pytest.raises(SettingError, match="robust needs the mean of every client"):
        sums_of(method, CLASSES, 2)


def test_one_client_of_fedcof_is_told_that_nothing_can_be_estimated():
    clients = [(np.array([[0.0, 1], [2, 1]]), [0, 1])]
    sums = sums_of(FedCOF(), [0, 1], 2)
    with pytest.warns(FewMeansWarning, match="every class has one mean"):
        sums.pooled(totals_of(sums, clients))


def test_the_head_says_how_features_were_transformed():
    sums = sums_of(FedNCM(), [0, 1], 2)
    total = sums.addends(0, [[0.0, 1], [2, 1]], [0, 1])
    head = sums.head([total], origin={"transform": "power:0.5", "backbone": "abc"})
    assert str(head.transform) == "power:0.5"
    assert head.provenance.origin["backbone"] == "abc"


@given(st.integers(1, 6))
def test_packing_keeps_the_matrix_and_its_norm(dim):
    rng = np.random.default_rng(dim)
    matrix = rng.normal(size=(dim, dim))
    matrix += matrix.T
    numbers = packed(matrix)
    np.testing.assert_allclose(np.linalg.norm(numbers), np.linalg.norm(matrix))
    np.testing.assert_allclose(unpacked(numbers, dim), matrix)
