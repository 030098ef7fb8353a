import numpy as np
import pytest

from fedcof import Fed3R, FedCOF, FedNCM
from fedcof.client import Sender
from fedcof.data import Dirichlet, by_column
from fedcof.experiments import (
    Clients,
    Dealt,
    Experiment,
    Participation,
    Results,
    SettingGrid,
    Source,
    collect,
    evaluate,
    run,
)
from fedcof.experiments.participation import appearances, participate


@pytest.fixture(scope="module")
def dealt(features):
    return Clients(Source(features), Dirichlet(20, 0.5), 0).dealt


@pytest.mark.parametrize("method", [FedNCM(), Fed3R(), FedCOF(0.1), FedCOF(means_per_class=2)])
def test_last_round_is_the_single_round_exactly(method, dealt):
    sent = collect(Sender(method, 5), dealt)
    head, rounds = participate(method, sent, dealt, participation=0.3, seed=5)
    expected, whole = evaluate(Sender(method, 5), dealt)
    last = rounds[-1]
    assert head.weight.tobytes() == whole.weight.tobytes()
    assert last.accuracy == expected.accuracy
    assert last.formula_bytes == expected.formula_bytes
    assert last.wire_bytes == expected.wire_bytes
    assert sum(each.clients for each in rounds) == 20


def test_every_training_free_round_is_told(dealt):
    told = []
    sent = collect(Sender(FedNCM()), dealt)
    _, rounds = participate(FedNCM(), sent, dealt, participation=0.3, seed=5, on_round=told.append)
    assert told == rounds


def test_every_client_appears_once_and_at_most_the_share_a_round():
    rounds = appearances(100, 0.3, np.random.default_rng(0))
    assert sorted(client for fresh in rounds for client in fresh) == list(range(100))
    assert len(rounds[0]) == 30
    assert max(map(len, rounds)) == 30
    assert rounds[-1]


def test_bytes_grow_with_the_clients_seen(dealt):
    sent = collect(Sender(FedCOF()), dealt)
    _, rounds = participate(FedCOF(), sent, dealt, participation=0.3, seed=1)
    for sizes in (
        [each.formula_bytes for each in rounds],
        [each.wire_bytes for each in rounds],
    ):
        assert sizes == sorted(sizes)
    assert [each.number for each in rounds] == list(range(1, len(rounds) + 1))


def test_row_holds_the_whole_curve(features, tmp_path):
    grid = SettingGrid(("set",), ("net",), (Dirichlet(20, 0.5),), (Participation(FedCOF(0.1)),))
    experiment = Experiment("curve", "", (grid,))
    results = Results(tmp_path)
    run([experiment], results, lambda *_: features, seeds=1)
    [row] = results.rows()
    assert row.setting["participation"] == 0.3
    assert row.measured["rounds"][-1]["accuracy"] == row.measured["accuracy"]
    assert sum(each["clients"] for each in row.measured["rounds"]) == 20


def test_first_clients_with_one_class_between_them_have_no_head_yet():
    features, labels = np.eye(4, dtype=np.float32), np.array([0, 0, 1, 1])
    dealt = Dealt(features, labels, by_column([*"abcd"]), features, labels)
    collected = collect(Sender(FedNCM()), dealt)
    _, rounds = participate(FedNCM(), collected, dealt, participation=0.25, seed=0)
    assert rounds[0].accuracy == 0
    assert rounds[-1].accuracy > 0
