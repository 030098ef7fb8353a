"""Class means and scatter that no minority of the clients can move far."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof.methods import FedCOF, FedNCM
from fedcof.robust import geometric_medians, trusted_counts
from fedcof.scatter import ClassStatistics

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedcof.errors.OddSiteWarning", "ignore::fedcof.errors.FewMeansWarning"
)

DIM, CLASSES = 16, 3


def federation(sites=12, seed=0):
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(CLASSES, DIM))
    data = {}
    for site in range(sites):
        labels = rng.integers(CLASSES, size=60)
        data[f"{site:02}"] = (centres[labels] + rng.normal(size=(60, DIM)), labels)
    return data


def summaries(data, method=None):
    return [(method or FedCOF()).summarize(x, y, client_id=name) for name, (x, y) in data.items()]


def class_means(parts, *, robust):
    return ClassStatistics.of(parts, robust=robust).class_means()


def test_the_median_of_points_on_a_line_is_that_of_their_weights():
    points = np.array([[0.0], [1.0], [5.0]])
    zeros = np.zeros(3, dtype=np.int64)
    assert geometric_medians(points, np.ones(3), zeros) == pytest.approx(1.0, abs=1e-2)
    heavy = np.array([1.0, 1.0, 9.0])
    assert geometric_medians(points, heavy, zeros) == pytest.approx(5.0, abs=1e-2)


def test_honest_clients_count_as_they_say():
    [head, robust] = [FedCOF(robust=on).solve(summaries(federation())) for on in (False, True)]
    cosines = (head.weight * robust.weight).sum(axis=1)
    assert cosines.min() > 0.99


@pytest.mark.parametrize("factor", [-1.0, 10.0, 5000.0])
@pytest.mark.parametrize("liars", [1, 3, 5])
def test_a_minority_does_not_move_the_class_means(liars, factor):
    data = federation()
    honest = class_means(summaries(data), robust=False)
    for name in sorted(data)[:liars]:
        data[name] = (factor * data[name][0], data[name][1])
    moved = np.linalg.norm(class_means(summaries(data), robust=True) - honest, axis=1)
    assert moved.max() < (0.5 if liars < 5 else 2.0)
    plain = np.linalg.norm(class_means(summaries(data), robust=False) - honest, axis=1)
    assert moved.max() < plain.max()


def test_a_count_without_bound_makes_no_client_the_federation():
    parts = summaries(federation())
    means = np.concatenate([part.means for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    counts[:CLASSES] = 2**40
    index = np.tile(np.arange(CLASSES), len(parts))
    trusted = trusted_counts(means, counts, index, np.repeat(np.arange(len(parts)), CLASSES))
    assert trusted[:CLASSES].sum() <= 4 * 60 + 1


@given(st.integers(1, 6), st.integers(0, 5))
def test_no_mean_counts_for_more_than_is_claimed(rows, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 9, size=rows)
    zeros = np.zeros(rows, dtype=np.int64)
    trusted = trusted_counts(rng.normal(size=(rows, 2)), counts, zeros, np.arange(rows))
    assert ((trusted > 0) & (trusted <= counts)).all()


def test_equal_means_and_single_classes_are_well_defined():
    data = {"a": (np.ones((2, 2)), [0, 1]), "b": (np.ones((2, 2)), [0, 2])}
    head = FedNCM(robust=True).solve(summaries(data, FedNCM()))
    assert np.isfinite(head.weight).all()


def test_the_order_of_the_clients_changes_nothing():
    parts = summaries(federation())
    forward, backward = (FedCOF(robust=True).solve(p) for p in (parts, parts[::-1]))
    assert np.array_equal(forward.weight, backward.weight)
