from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof import FedCOF, FedCOFOracle, FedCOFSketch, ScatterSketch, from_bytes, merge
from fedcof.client import Sender
from fedcof.methods.fedcof_sketch import shape_of_rest
from fedcof.methods.spending import highest_rank, spend
from fedcof.transforms import RandomFeatures, Standardize, chain

pytestmark = pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")

DIM = 16


def make_clients(clients=4, samples=60, dim=DIM, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(dim, dim)) * np.maximum(1.3 ** -np.arange(dim), 0.1)
    centres = rng.normal(size=(classes, dim))
    found = {}
    for k in range(clients):
        y = rng.integers(classes, size=samples)
        x = centres[y] + rng.normal(size=(samples, dim)) @ root.T + 0.1 * rng.normal(size=dim)
        found[f"c{k}"] = x, y
    return found


def summaries(method, clients, sender=Sender, **settings):
    return [
        from_bytes(sender(method, **settings).send(x, y, client_id=name).data)
        for name, (x, y) in clients.items()
    ]


def of_rank(rank, clients):
    return [
        FedCOFSketch(rank=rank).summarize(x, y, client_id=name) for name, (x, y) in clients.items()
    ]


@pytest.mark.parametrize("form", ["lda", "regression"])
def test_with_all_eigenpairs_it_is_the_oracle(form):
    clients = make_clients()
    method = FedCOFSketch(rank=DIM, shrinkage=0.0, form=form, priors=PRIORS[form])
    oracle = FedCOFOracle(0.0, form=form, priors=PRIORS[form])
    head = method.solve(of_rank(DIM, clients))
    exact = oracle.solve(oracle.summarize(x, y, client_id=c) for c, (x, y) in clients.items())
    np.testing.assert_allclose(head.weight, exact.weight, rtol=1e-7, atol=1e-8)


PRIORS = {"lda": "uniform", "regression": "counts"}


@given(rank=st.integers(0, DIM), rho=st.floats(0, 1), seed=st.integers(0, 99))
def test_the_trace_is_exact_whatever_the_rank_and_the_shape(rank, rho, seed):
    clients = make_clients(seed=seed, samples=20)
    pooled = FedCOFSketch().pool(of_rank(rank, clients))
    together, labels = (np.concatenate(c) for c in zip(*clients.values(), strict=True))
    exact = FedCOFOracle().pool_samples(together, labels).within_scatter
    within = pooled.scatter(rho).within_scatter
    assert np.trace(within) == pytest.approx(np.trace(exact))
    assert np.linalg.eigvalsh(within)[0] > -1e-9 * np.trace(within)
    assert np.linalg.eigvalsh(exact - pooled.known)[0] > -1e-9 * np.trace(exact)


def test_more_eigenpairs_are_nearer_to_the_exact_scatter():
    clients = make_clients()
    together, labels = (np.concatenate(c) for c in zip(*clients.values(), strict=True))
    exact = FedCOFOracle().pool_samples(together, labels).within_scatter
    errors = [
        np.linalg.norm(FedCOFSketch().pool(of_rank(r, clients)).scatter(0.5).within_scatter - exact)
        for r in (0, 2, 4, 8, 16)
    ]
    assert errors == sorted(errors, reverse=True)


def test_the_shape_of_what_is_left_by_hand():
    # By the means diag(9, 1) less the sketch diag(4, 1): diag(5, 0). The root: diag(2, 1).
    shape = shape_of_rest(np.diag([9.0, 1.0]), np.diag([4.0, 1.0]))
    np.testing.assert_allclose(shape, np.diag([(1 + 2 / 3) / 2, 1 / 6]), atol=1e-12)
    none = np.zeros((2, 2))
    by_sketch = shape_of_rest(none, np.diag([4.0, 1.0]))
    np.testing.assert_allclose(by_sketch, np.diag([2 / 3, 1 / 3]), atol=1e-12)
    by_means = shape_of_rest(np.diag([3.0, 1.0]), none)
    np.testing.assert_allclose(by_means, np.diag([0.75, 0.25]), atol=1e-12)
    np.testing.assert_array_equal(shape_of_rest(none, none), np.eye(2) / 2)


def test_one_client_needs_no_spread_of_means():
    clients = make_clients(clients=1)
    for rank in (0, 3):
        head = FedCOFSketch(rank=rank).solve(of_rank(rank, clients))
        (x, y), *_ = clients.values()
        assert head.score(x, y) > 0.9


@pytest.mark.parametrize("rank", [0, 3])
def test_merged_summaries_give_the_head_of_their_parts_bit_for_bit(rank):
    parts = of_rank(rank, make_clients())
    head = FedCOFSketch().solve(parts)
    for given_ in (parts[::-1], [merge(parts)], [merge(parts[::2]), merge(parts[1::2])]):
        np.testing.assert_array_equal(FedCOFSketch().solve(given_).weight, head.weight)


@pytest.mark.parametrize("budget", [0.25, 0.35, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("transform", [RandomFeatures(256), None])
def test_no_client_sends_more_than_its_budget(budget, transform):
    clients = make_clients(dim=128, samples=400, classes=20)
    settings = {} if transform is None else {"transform": transform}
    if transform is not None and budget < 0.5:
        return  # the means alone are more
    for name, (x, y) in clients.items():
        unit = Sender(FedCOF()).send(x, y, client_id=name).wire_bytes
        sent = Sender(FedCOFSketch(budget=budget), **settings).send(x, y, client_id=name)
        assert sent.wire_bytes <= budget * unit
        rank = len(from_bytes(sent.data).vectors)
        if rank < x.shape[1]:
            assert sent.wire_bytes > budget * unit - 400  # one vector more does not fit


def test_where_the_means_are_above_the_budget_they_are_all_that_is_sent():
    (x, y), *_ = make_clients(dim=8).values()
    sent = from_bytes(Sender(FedCOFSketch(budget=0.1)).send(x, y).data)
    assert len(sent.vectors) == 0


def test_a_budget_in_megabytes():
    (x, y), *_ = make_clients(dim=128).values()
    sent = Sender(FedCOFSketch(budget_mb=0.004)).send(x, y)
    assert 3_900 < sent.wire_bytes <= 4_000


def test_a_coding_that_is_asked_for_is_taken():
    (x, y), *_ = make_clients(dim=128).values()
    for coding in ("float32", "means=int8,vectors=int8"):
        sender = Sender(FedCOFSketch(budget=2.0), coding=coding)
        sent = sender.send(x, y)
        lengths = {"dim": 128, "rank": len(from_bytes(sent.data).vectors)}
        size = ScatterSketch.encoded_size(np.unique(y), lengths, coding=coding)
        assert sent.wire_bytes == size[1]


def test_the_expected_bytes_are_those_sent():
    clients = make_clients(dim=32)
    sender = Sender(FedCOFSketch(budget=2.0), transform=RandomFeatures(64))
    for name, (x, y) in clients.items():
        sent = sender.send(x, y, client_id=name)
        expected = sender.expected_bytes(np.unique(y), 32, samples=len(y), client_id=name)
        assert expected == (sent.formula_bytes, sent.wire_bytes)


@given(st.floats(0, 5000), st.integers(0, 60))
def test_spending_stays_within_what_is_allowed(allowance, most):
    sizes = {"means=int8,vectors=int8": (900, 60), "means=int4,vectors=int4": (500, 30)}

    def size(coding, rank):
        return sizes[coding][0] + rank * sizes[coding][1]

    coding, rank = spend(allowance, size, most, tuple(sizes))
    assert 0 <= rank <= most
    assert rank == 0 or size(coding, rank) <= allowance
    if coding.startswith("means=int8"):
        assert rank == most


def test_the_highest_rank():
    assert [highest_rank(n, lambda r: 10 + 3 * r, 4) for n in (5, 10, 12, 13, 21, 22, 99)] == [
        0, 0, 0, 1, 3, 4, 4,
    ]  # fmt: skip


def test_a_vector_that_costs_no_byte_since_it_fills_padding():
    assert highest_rank(64, lambda rank: 64 if rank < 2 else 72, 4) == 1


MANY = [(30, 500)] * 100  # as CIFAR-100 with 100 clients: about 30 classes each
FEW = [(36, 5000)] * 10


def test_features_are_lifted_where_their_covariance_can_be_known():
    sender = Sender(FedCOFSketch(budget=1.0), transform=Standardize())
    assert sender.planned(512, MANY, 100).transform == chain(Standardize(), RandomFeatures(2048))
    for unchanged in (
        sender.planned(512, FEW, 100),
        replace(sender, method=FedCOFSketch(budget=0.25)).planned(512, MANY, 100),
        replace(sender, method=FedCOFSketch(lift=0)).planned(512, MANY, 100),
        replace(sender, method=FedCOF()).planned(512, MANY, 100),
    ):
        assert unchanged.transform == Standardize()
    asked = replace(sender, method=FedCOFSketch(lift=64))
    assert asked.planned(512, FEW, 100).transform == chain(Standardize(), RandomFeatures(64))
    lifted = replace(sender, transform=RandomFeatures(600))
    assert lifted.planned(512, MANY, 100) == lifted


def test_a_lift_that_is_asked_for_needs_no_plan():
    sender = Sender(FedCOFSketch(lift=64), transform=Standardize())
    lifted = chain(Standardize(), RandomFeatures(64))
    assert sender.transform == lifted
    assert Sender.from_settings(sender.settings()).transform == lifted
    assert replace(sender, seed=1).transform == lifted  # once, not twice
    for not_lifted in (FedCOFSketch(lift=0), FedCOFSketch(), FedCOF()):
        assert Sender(not_lifted, transform=Standardize()).transform == Standardize()
    head = FedCOFSketch(lift=64).solve(summaries(FedCOFSketch(lift=64), make_clients()))
    assert str(head.transform) == "random-features:64:0:relu:16"


def test_lifted_features_stay_within_the_budget_of_raw_ones():
    rng = np.random.default_rng(0)
    clients = {
        f"c{k:02}": (rng.normal(size=(200, 24)).astype(np.float32), np.arange(200) % 20)
        for k in range(12)
    }
    known = [(20, 200)] * 12
    sender = Sender(FedCOFSketch(budget=3.0)).planned(24, known, 20)
    assert sender.transform == RandomFeatures(192)
    for name, (x, y) in clients.items():
        sent = sender.send(x, y, client_id=name).wire_bytes
        assert sent <= 3 * Sender(FedCOF()).send(x, y, client_id=name).wire_bytes
