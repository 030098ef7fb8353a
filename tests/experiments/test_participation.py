import numpy as np
import pytest

from fedcof import Fed3R, FedCOF, FedNCM
from fedcof.data import Dirichlet, dirichlet
from fedcof.experiments import Dealt, Experiment, Results, collect, evaluate, run
from fedcof.experiments.experiment import Grid
from fedcof.experiments.participation import appearances, participate


@pytest.fixture(scope="module")
def dealt(features):
    partition = dirichlet(features.train.labels, 20, 0.5, seed=0)
    return Dealt(*features.train[:2], partition, *features.test[:2])


@pytest.mark.parametrize("method", [FedNCM(), Fed3R(), FedCOF(0.1), FedCOF(means_per_class=2)])
def test_last_round_is_the_single_round_exactly(method, dealt):
    sent = collect(method, dealt, seed=5)
    last = participate(method, dealt, sent.summaries, seed=5)[-1]
    expected, _ = evaluate(method, dealt, seed=5)
    assert last.accuracy == expected.accuracy
    assert last.formula_bytes == expected.formula_bytes
    assert last.clients_seen == 20


def test_every_client_appears_once_and_at_most_the_fraction_a_round():
    rounds = appearances(100, 0.3, np.random.default_rng(0))
    assert sorted(client for fresh in rounds for client in fresh) == list(range(100))
    assert len(rounds[0]) == 30
    assert max(map(len, rounds)) == 30
    assert rounds[-1]


def test_bytes_grow_with_the_clients_seen(dealt):
    sent = collect(FedCOF(), dealt)
    rounds = participate(FedCOF(), dealt, sent.summaries, seed=1)
    seen = [one.clients_seen for one in rounds]
    sizes = [one.formula_bytes for one in rounds]
    assert seen == sorted(seen)
    assert sizes == sorted(sizes)
    assert [one.round for one in rounds] == list(range(1, len(rounds) + 1))


def test_row_holds_the_whole_curve(features, tmp_path):
    grid = Grid(("set",), ("net",), (Dirichlet(20, 0.5),), (FedCOF(0.1),))
    experiment = Experiment("curve", "", (grid,), measure="participation")
    results = Results(tmp_path)
    run(experiment, results, lambda *_: features, seeds=1)
    [row] = results.rows()
    assert row["rounds"][-1]["accuracy"] == row["accuracy"]
    assert row["rounds"][-1]["clients_seen"] == 20
