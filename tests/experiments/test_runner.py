import json
from functools import wraps
from pathlib import Path

import numpy as np
import pytest

from fedcof import CCVR, Fed3R, FedCOF, FedCOFDiagonal, FedCOFOracle, FedCOFSpherical, FedNCM
from fedcof.client import Sender
from fedcof.data import ByColumn, Central, Dirichlet
from fedcof.errors import FedCOFError
from fedcof.experiments import (
    Clients,
    Experiment,
    OneRound,
    Results,
    SettingGrid,
    Source,
    evaluate,
    one_round,
    run,
)
from fedcof.experiments.best import Best
from fedcof.methods.fedcof_pooled import FedCOFPooled
from fedcof.transforms import parse

METHODS = (
    FedNCM(),
    Fed3R(),
    Fed3R(10.0),
    FedCOF(0.1),
    FedCOF(1.0, means_per_class=2),
    FedCOF(1.0, scatter="both"),
    FedCOFOracle(0.1),
    FedCOFDiagonal(0.1),
    FedCOFSpherical(0.1),
    CCVR(samples_per_class=20, max_iter=20),
)
DEALING = Dirichlet(12, 0.5)


def experiment(methods=METHODS, dealings=(DEALING,), **options):
    return Experiment(
        "tiny", "", (SettingGrid(("set",), ("net",), dealings, one_round(*methods)),), **options
    )


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "runs")


def accuracy_of(row):
    return row.key, row.measured["accuracy"]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_row_is_what_the_plain_way_gives(method, features, results):
    run([experiment((method,))], results, lambda *_: features, seeds=2)
    for row in results.rows():
        seed = row.seed
        dealt = Clients(Source(features), DEALING, seed).dealt
        plain = CCVR(20, 20, seed) if method.name == "ccvr" else method
        expected, _ = evaluate(Sender(plain, seed), dealt)
        assert row.measured["accuracy"] == expected.accuracy
        assert row.measured["formula_bytes"] == expected.formula_bytes
        assert row.measured["wire_bytes"] == expected.wire_bytes


def test_formula_of_the_paper_holds_to_the_byte(features, results):
    run([experiment((FedNCM(), Fed3R(), FedCOFOracle()))], results, lambda *_: features, seeds=1)
    fedncm, fed3r, oracle = [row.measured for row in results.rows()]
    means, clients, dim = fedncm["num_means"], fedncm["clients_seen"], 6
    assert fedncm["formula_bytes"] == 4 * means * dim
    assert fed3r["formula_bytes"] == 4 * (means * dim + clients * dim**2)
    assert oracle["formula_bytes"] == 4 * means * (dim + dim**2)


def count_calls(monkeypatch, owner, name):
    calls = []
    original = getattr(owner, name)

    @wraps(original)
    def counted(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, counted)
    return calls


def test_one_gram_matrix_serves_all_seeds_and_ridges(features, results, monkeypatch):
    calls = count_calls(monkeypatch, Fed3R, "pool_samples")
    grid = experiment((Fed3R(0.01), Fed3R(1.0)), (DEALING, Dirichlet(5, 1.0)))
    run([grid], results, lambda *_: features, seeds=3)
    assert len(results.rows()) == 12
    assert len(calls) == 1


def test_means_of_a_partition_serve_all_methods_and_shrinkages(features, results, monkeypatch):
    calls = count_calls(monkeypatch, Sender, "send_each")
    pools = count_calls(monkeypatch, FedCOF, "pool")
    methods = (FedNCM(), *(FedCOF(gamma) for gamma in (0.1, 1.0, 10.0)))
    run([experiment(methods)], results, lambda *_: features, seeds=2)
    assert len(calls) == 2  # all clients of a partition at once, for FedNCM, the first
    assert len(pools) == 2


def test_finished_rows_are_not_run_again(features, results):
    run([experiment()], results, lambda *_: features, seeds=2)
    before = results.path.read_bytes()
    run([experiment()], Results(results.path.parent), pytest.fail, seeds=2)
    assert results.path.read_bytes() == before


def test_run_that_was_killed_goes_on_at_the_row_that_it_was_writing(features, results):
    run([experiment()], results, lambda *_: features, seeds=1)
    whole = results.path.read_text()
    results.path.write_text(whole[:-30])
    again = Results(results.path.parent)
    assert len(again.rows()) == len(METHODS) - 1
    run([experiment()], again, lambda *_: features, seeds=1)
    assert [accuracy_of(row) for row in again.rows()] == [
        accuracy_of(row) for row in results.rows()
    ]
    assert results.path.read_text().count("\n") == len(METHODS)


def test_more_seeds_add_rows_only(features, results):
    run([experiment((FedNCM(),))], results, lambda *_: features, seeds=1)
    run([experiment((FedNCM(),))], results, lambda *_: features, seeds=3)
    assert [row.seed for row in results.rows()] == [0, 1, 2]


def test_missing_data_is_skipped_with_its_reason(features, results):
    grid = Experiment(
        "two", "", (SettingGrid(("here", "gone"), ("net",), (DEALING,), one_round(FedNCM())),)
    )

    def load(dataset, backbone):
        if dataset == "gone":
            raise FedCOFError("gone is not in the folder")
        return features

    run([grid], results, load, seeds=1)
    assert [row.setting["dataset"] for row in results.rows()] == ["here"]
    [skipped] = results.skipped("two")
    assert skipped == ("two", None, "gone", "net", "gone is not in the folder")


def test_set_without_the_column_to_deal_by_is_skipped_and_the_others_run(features, results):
    dealings = (ByColumn("user"), ByColumn("domain"))
    run([experiment((FedNCM(),), dealings)], results, lambda *_: features, seeds=1)
    assert [row.measured["clients_seen"] for row in results.rows()] == [2]
    [skipped] = results.skipped("tiny")
    assert "'user'" in skipped.reason
    assert "domain" in skipped.reason


def test_training_accuracy_and_condition_numbers_where_they_are_asked_for(features, results):
    metrics = ("accuracy", "train_accuracy", "condition_within", "condition_between")
    run([experiment((Fed3R(),), (Central(),), metrics=metrics)], results, lambda *_: features)
    row = results.rows()[0].measured
    assert 0.5 < row["train_accuracy"] <= 1.0
    x, labels = features.train.features.astype(float), features.train.labels
    within = sum(np.cov(x[labels == c].T) * (np.sum(labels == c) - 1) for c in range(4))
    assert row["condition_within"] == pytest.approx(np.linalg.cond(within), rel=1e-6)
    assert row["condition_between"] > 1


def test_row_is_tidy(features, results):
    run([experiment((FedCOF(0.1),))], results, lambda *_: features, seeds=1)
    [row] = results.rows()
    assert (row.experiment, row.seed) == ("tiny", 0)
    assert row.setting == {
        "dataset": "set",
        "backbone": "net",
        "partition": "dirichlet",
        "clients": 12,
        "alpha": 0.5,
        "method": "fedcof",
        "shrinkage": 0.1,
        "scatter": "within",
        "means_per_class": 1,
    }
    measured = row.measured
    assert measured["means_received"] == measured["num_means"] / 4
    assert measured["fingerprint"] == "fingerprint"
    assert "numpy" in measured["versions"]
    assert measured["seconds"] > 0
    saved = json.loads(results.path.read_text())
    assert saved.keys() == {"experiment", "seed", "setting", "measured"}


def test_class_counts_of_the_first_clients_are_kept(features, results):
    run([experiment((FedNCM(),))], results, lambda *_: features, seeds=1)
    [counts] = results.histograms().values()
    assert sum(sum(held.values()) for held in counts.values()) == 240
    assert {name for held in counts.values() for name in held} == set(features.train.classes)


def test_same_seed_gives_the_same_rows(features, tmp_path):
    measured = []
    for folder in ("one", "two"):
        results = Results(Path(tmp_path / folder))
        run([experiment()], results, lambda *_: features, seeds=2)
        measured.append([accuracy_of(row) for row in results.rows()])
    assert measured[0] == measured[1]


def test_methods_whose_clients_send_other_things_share_nothing(features, results):
    run([experiment((FedCOF(), FedCOF(means_per_class=2)))], results, lambda *_: features, seeds=1)
    one, two = [row.measured["num_means"] for row in results.rows()]
    assert one < two


class TestBest:
    def test_it_is_the_best_of_the_values_and_says_which(self, features, results):
        values = (0.001, 1.0, 1e6)
        singles = tuple(FedCOF(value) for value in values)
        run([experiment(singles)], results, lambda *_: features, seeds=1)
        best = Best(FedCOF(), setting="shrinkage", values=values)
        declared = Experiment("best", "", (SettingGrid(("set",), ("net",), (DEALING,), (best,)),))
        run([declared], results, lambda *_: features, seeds=1)
        [row] = results.rows("best")
        accuracies = [single.measured["accuracy"] for single in results.rows("tiny")]
        assert row.measured["accuracy"] == max(accuracies)
        assert accuracies[values.index(row.measured["chosen"])] == max(accuracies)
        assert (row.setting["best"], row.setting["best_of"]) == ("shrinkage", "0.001, 1, 1e+06")
        assert "shrinkage" not in row.setting


class TestTransformedClients:
    def test_a_row_is_what_a_federation_of_such_senders_reaches(self, features, results):
        procedure = OneRound(FedCOF(0.1), "standardize+random-features:30", "int8")
        declared = Experiment(
            "tiny",
            "",
            (SettingGrid(("set",), ("net",), (DEALING,), (procedure,)),),
            metrics=("accuracy", "multiple", "server_seconds"),
        )
        run([declared], results, lambda *_: features, seeds=1)
        [row] = results.rows()
        clients = Clients(Source(features), DEALING, 0)
        sender = Sender(FedCOF(0.1), 0, "int8", parse("standardize+random-features:30"))
        result, _ = evaluate(sender, clients.dealt)
        assert row.measured["accuracy"] == result.accuracy
        assert row.measured["wire_bytes"] == result.wire_bytes
        plain, _ = evaluate(Sender(FedCOF()), clients.dealt)
        assert row.measured["multiple"] == result.wire_bytes / plain.wire_bytes
        assert row.measured["client_seconds"] > 0 < row.measured["server_seconds"]
        assert row.setting["transform"] == "standardize+random-features:30"

    def test_a_statistic_that_does_not_depend_on_the_clients_is_transformed_too(self, features):
        clients = Clients(Source(features), DEALING, 0)
        sender = clients.sender(Fed3R(), transform="power:0.5")
        pooled = clients.pooled(sender)
        result, _ = evaluate(sender, clients.dealt)
        head = Fed3R().fit(pooled.content)
        test_features = clients.source.features(sender.transform, "test")
        assert head.score(test_features, clients.dealt.test_labels) == result.accuracy
        assert pooled.traffic.wire_bytes == result.wire_bytes


def test_two_methods_of_one_pooling_function_are_not_taken_for_one(features):
    # FedCOF's scatter was taken for that of its relative, which inherits the function.
    clients = Clients(Source(features), DEALING, 0)
    own, other = (
        clients.pooled(clients.sender(method)).content.within_scatter
        for method in (FedCOF(), FedCOFPooled())
    )
    assert np.abs(own - other).max() > 0.01 * np.abs(own).max()
