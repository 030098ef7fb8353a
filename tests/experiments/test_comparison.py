import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof import METHODS, FedCOF
from fedcof.data import ByColumn, FeatureTable, Iid
from fedcof.errors import SummaryError
from fedcof.experiments.comparison import (
    compared_methods,
    comparison,
    mean_squares,
    run_comparison,
    split_rows,
)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 9))
def test_every_row_is_trained_on_or_tested_and_every_class_is_trained_on(labels, seed):
    labels = np.array(labels)
    if np.bincount(labels).max() == 1:
        with pytest.raises(SummaryError, match="has one sample, so none can be tested"):
            split_rows(labels, seed)
        return
    train, test = split_rows(labels, seed)
    assert sorted([*train, *test]) == list(range(len(labels)))
    assert set(labels[train]) == set(labels)
    numbers, sizes = np.unique(labels, return_counts=True)
    assert set(labels[test]) == set(numbers[sizes > 1])


def test_one_seed_gives_one_split():
    labels = np.repeat([0, 1], 50)
    assert np.array_equal(split_rows(labels, 3)[1], split_rows(labels, 3)[1])
    assert not np.array_equal(split_rows(labels, 3)[1], split_rows(labels, 4)[1])


def test_clients_that_are_alike_have_no_shift_and_others_do(rng):
    labels, clients = rng.integers(3, size=6000), rng.integers(20, size=6000)
    features = rng.normal(size=(6000, 8)) * np.logspace(-3, 3, 8) + labels[:, None]
    assert mean_squares(features, labels, clients).shift == pytest.approx(1.0, abs=0.15)
    moved = features + 0.5 * np.logspace(-3, 3, 8) * clients[:, None]
    assert mean_squares(moved, labels, clients).shift > 20


@pytest.mark.parametrize("clients", [[0, 0, 1, 1], [0, 1, 2, 3]])
def test_a_shift_that_cannot_be_told_is_not_invented(clients):
    # A class at one client each, or a sample a client.
    found = mean_squares(np.eye(4), np.array([0, 0, 1, 1]), np.array(clients))
    assert found.shift is None


def test_every_method_is_compared_with_what_is_given():
    methods = compared_methods({"shrinkage": 0.5})
    assert {method.name for method in methods} == set(METHODS)
    of_fedcof = [method for method in methods if type(method) is FedCOF]
    assert [method.means_per_class for method in of_fedcof] == [1, 4]
    assert {method.shrinkage for method in of_fedcof} == {0.5}


@pytest.fixture
def table(rng):
    labels = np.arange(60) % 3
    features = rng.normal(size=(60, 4)) + 3 * np.eye(3, 4)[labels]
    clients = np.array(["a", "b", "c"])[np.arange(60) // 20]
    return FeatureTable(features, labels, ("x", "y", "z"), {"client": clients})


def test_every_method_has_a_row_a_seed_and_the_same_seeds_the_same_numbers(table):
    methods = compared_methods({"samples_per_class": 5})
    declared = comparison("t", "", ByColumn("client"), methods, seeds=2)
    rows, skipped, facts = run_comparison(declared, table, lambda *_: None)
    assert not skipped
    assert len(rows) == 2 * len(methods)
    assert (facts.clients, facts.classes, facts.rank, facts.single) == (3, 3, 6, 0)
    again, _, _ = run_comparison(declared, table, lambda *_: None)
    assert [row.measured for row in rows] == [row.measured for row in again]


def test_a_method_that_cannot_be_run_is_named_with_the_reason(table):
    one = table.subset(np.flatnonzero(table.labels == 0))
    declared = comparison("t", "", Iid(2), [FedCOF()], seeds=1)
    rows, [skipped], _ = run_comparison(declared, one, lambda *_: None)
    assert rows == []
    assert "fedcof: all clients hold only the class 0" in skipped.reason
