"""The laws of merging, for every kind of summary, on federations of any shape."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import fedcof
from fedcof import METHODS, SummaryError, merge
from fedcof.numerics import blocks
from fedcof.summaries import ClassMeans
from fedcof.summaries.client_rows import ClientRows

# few clients, as here, may leave one mean a class, and a few samples may lie far from the others
pytestmark = pytest.mark.filterwarnings(
    "ignore::fedcof.FewMeansWarning",
    "ignore::fedcof.errors.OddSiteWarning",
    "ignore::fedcof.SingularScatterWarning",  # fedcgs has no shrinkage
)

FEW_DRAWS = {"samples_per_class": 5, "max_iter": 5}
METHODS_TO_TEST = [
    METHODS[name](**(FEW_DRAWS if hasattr(METHODS[name], "samples_per_class") else {}))
    for name in sorted(METHODS)
]
every_method = pytest.mark.parametrize("method", METHODS_TO_TEST, ids=lambda method: method.name)

federations = st.tuples(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=3, max_size=25),
    st.integers(0, 2**32 - 1),
    st.sampled_from([np.float32, np.float64]),
)


def deal_out(method, federation):
    """What the clients send: a list of (client, class) for every sample, a seed and a dtype."""
    samples, seed, dtype = federation
    clients, labels = np.array(samples).T
    assume(1 < len(set(labels)) < len(labels))
    features = np.random.default_rng(seed).normal(size=(len(samples), 3))
    return [
        fedcof.from_bytes(
            method.summarize(features[mine], labels[mine], client_id=str(client), rng=0).to_bytes()
        )
        if dtype == np.float32
        else method.summarize(features[mine], labels[mine], client_id=str(client), rng=0)
        for client in np.unique(clients)
        for mine in [clients == client]
    ]


def content(summary):
    names = ("classes", "counts", "rows_per_client", *summary.axes)
    return {name: getattr(summary, name) for name in names}


def solve(method, summaries):
    try:
        return method.solve(summaries)
    except SummaryError as error:  # of the methods that need two means of a client's class
        assume(error.code != "means")
        raise


def assert_same(one, other, *, exact):
    assert one.client_ids == other.client_ids
    for name, array in content(one).items():
        if exact or array.dtype.kind != "f":
            np.testing.assert_array_equal(array, content(other)[name])
        else:
            np.testing.assert_allclose(array, content(other)[name], rtol=1e-9, atol=1e-9)


def exact(method):
    return method.summary_type is ClassMeans


@every_method
@given(federation=federations, order=st.randoms())
def test_merging_is_commutative_to_the_last_bit(method, federation, order):
    parts = deal_out(method, federation)
    merged = merge(parts)
    order.shuffle(parts)
    assert_same(merge(parts), merged, exact=True)


@every_method
@given(federation=federations, cut=st.integers(1, 4), order=st.randoms())
def test_merging_is_associative(method, federation, cut, order):
    parts = deal_out(method, federation)
    order.shuffle(parts)
    merged = merge(parts)
    nested = [merge(half) for half in (parts[:cut], parts[cut:]) if half]
    assert_same(merge(nested), merged, exact=issubclass(method.summary_type, ClientRows))


@every_method
@settings(max_examples=20, suppress_health_check=[HealthCheck.filter_too_much])
@given(federation=federations, cut=st.integers(1, 4), order=st.randoms())
def test_the_head_of_merged_summaries_is_that_of_the_parts(method, federation, cut, order):
    parts = deal_out(method, federation)
    head = solve(method, parts)
    order.shuffle(parts)
    merged = solve(method, [merge(half) for half in (parts[:cut], parts[cut:]) if half])
    assert merged.classes.tolist() == head.classes.tolist()
    assert merged.provenance.formula_bytes == head.provenance.formula_bytes
    if exact(method):
        assert merged.weight.tobytes() == head.weight.tobytes()
    elif not hasattr(method, "samples_per_class"):  # an optimiser stops within its tolerance
        points = np.eye(head.dim)
        np.testing.assert_allclose(
            merged.decision_function(points), head.decision_function(points), rtol=1e-6, atol=1e-6
        )


@every_method
@settings(max_examples=20, suppress_health_check=[HealthCheck.filter_too_much])
@given(federation=federations, order=st.randoms())
def test_the_order_of_arrival_changes_no_bit_of_the_head(method, federation, order):
    parts = deal_out(method, federation)
    head = solve(method, parts).to_bytes()
    order.shuffle(parts)
    assert solve(method, parts).to_bytes() == head


@every_method
def test_one_summary_is_its_own_merger(method):
    summary = method.summarize(np.eye(3), [0, 1, 1], rng=0)
    assert merge([summary]) is summary


@every_method
def test_merging_keeps_samples_and_formula_consistent(method):
    parts = [
        method.summarize(np.eye(3), [0, 1, 1], client_id="a", rng=0),
        method.summarize(np.eye(3)[:2], [2, 1], client_id="b", rng=0),
    ]
    merged = merge(parts)
    assert merged.total == 5
    assert merged.client_ids == ("a", "b")
    assert merged.formula_bytes == sum(part.formula_bytes for part in parts)


def test_class_means_keep_every_mean_in_the_order_of_the_clients():
    b = ClassMeans(classes=[0, 1], counts=[1, 2], means=np.eye(2), client_ids=("b",))
    a = ClassMeans(classes=[1], counts=[3], means=np.full((1, 2), 7.0), client_ids=("a",))
    merged = merge([b, a])
    assert merged.client_ids == ("a", "b")
    assert merged.rows_per_client.tolist() == [1, 2]
    assert merged.classes.tolist() == [1, 0, 1]
    assert merged.counts.tolist() == [3, 1, 2]
    assert merged.means.tolist() == [[7.0, 7.0], [1.0, 0.0], [0.0, 1.0]]


def test_interleaved_clients_find_their_places():
    def one(name, value):
        return ClassMeans(classes=[0], counts=[1], means=np.array([[value]]), client_ids=(name,))

    merged = merge([merge([one("d", 4.0), one("a", 1.0)]), merge([one("c", 3.0), one("b", 2.0)])])
    assert merged.client_ids == ("a", "b", "c", "d")
    assert merged.means.ravel().tolist() == [1.0, 2.0, 3.0, 4.0]


def test_clients_without_a_name_are_all_kept_before_the_others():
    parts = [
        ClassMeans(classes=[0], counts=[1], means=np.array([[value]]), client_ids=(name,))
        for name, value in [("z", 0.0), ("", 1.0), ("", 2.0)]
    ]
    merged = merge(parts)
    assert merged.client_ids == ("", "", "z")
    assert merged.means.ravel().tolist() == [1.0, 2.0, 0.0]


def test_grams_add_up():
    parts = [
        fedcof.Fed3R().summarize([[1.0, 2.0]], ["a"], client_id="1"),
        fedcof.Fed3R().summarize([[3.0, 0.0], [0.0, 1.0]], ["b", "a"], client_id="2"),
    ]
    merged = merge(parts)
    assert merged.gram.tolist() == [[10.0, 2.0], [2.0, 5.0]]
    assert merged.sums.tolist() == [[1.0, 3.0], [3.0, 0.0]]
    assert merged.counts.tolist() == [2, 1]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 12))
def test_blocks_are_the_same_however_the_rows_are_dealt_to_arrays(lengths, at_least):
    rows = np.arange(float(sum(lengths)))[:, None]
    dealt = np.split(rows, np.cumsum(lengths)[:-1])
    with patch("fedcof.numerics._BLOCK_BYTES", 5 * 8):
        whole = [span for span, _ in blocks([rows], np.float64, at_least=at_least)]
        parts = [
            (span, block.copy(), np.shares_memory(block, rows))
            for span, block in blocks(dealt, np.float64, at_least=at_least)
        ]
    assert [span for span, *_ in parts] == whole
    for span, block, is_the_users in parts:
        assert block.tolist() == rows[span].tolist()
        assert not is_the_users


def test_a_head_from_several_blocks_does_not_depend_on_merging(rng, monkeypatch):
    monkeypatch.setattr("fedcof.numerics._BLOCK_BYTES", 5 * 3 * 4)
    parts = [
        fedcof.from_bytes(
            fedcof.summarize(rng.normal(size=(9, 3)), [0, 1, 2] * 3, client_id=f"{i:02}").to_bytes()
        )
        for i in range(12)
    ]
    head = fedcof.FedCOF().solve(parts)
    merged = fedcof.FedCOF().solve([merge(parts[::2]), merge(parts[1::2])])
    assert head.weight.tobytes() == merged.weight.tobytes()
