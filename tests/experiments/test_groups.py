import os
from dataclasses import dataclass

import pytest

from fedcof import Fed3R, FedCOF, FedNCM
from fedcof.data import ByColumn, Dirichlet
from fedcof.experiments import Experiment, OneRound, Results, SettingGrid, one_round, run
from fedcof.experiments.experiment import Procedure

DEALINGS = (Dirichlet(12, 0.5), Dirichlet(5, 1.0))


def experiment(*procedures, dealings=DEALINGS):
    return Experiment("tiny", "", (SettingGrid(("set",), ("net",), dealings, procedures),))


def rows_of(results):
    return sorted((row.key, row.measured["accuracy"]) for row in results.rows())


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "runs")


@pytest.mark.slow
def test_two_processes_measure_what_one_does(features, results, tmp_path):
    declared = experiment(*one_round(FedNCM(), Fed3R(), FedCOF(0.1)))
    run([declared], results, lambda *_: features, seeds=3)
    side_by_side = Results(tmp_path / "side-by-side")
    run([declared], side_by_side, lambda *_: features, seeds=3, workers=2)
    assert rows_of(side_by_side) == rows_of(results)
    assert side_by_side.histograms() == results.histograms()


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_cell_that_fails_does_not_end_the_others(workers, features, results):
    @dataclass(frozen=True)
    class Failing(Procedure):
        def columns(self):
            return {"method": "failing"}

        def measure(self, clients, execution):
            raise KeyError("nothing of this name")

    dealings = (ByColumn("user"), ByColumn("domain"))
    declared = experiment(OneRound(FedNCM()), Failing(), OneRound(Fed3R()), dealings=dealings)
    run([declared], results, lambda *_: features, seeds=1, workers=workers)
    assert [row.setting["method"] for row in results.rows()] == ["fedncm", "fed3r"]
    reasons = {entry.reason for entry in results.skipped("tiny")}
    assert "KeyError: 'nothing of this name'" in reasons
    assert any("'user'" in reason for reason in reasons)
    assert len(reasons) == 2


@pytest.mark.slow
def test_a_process_that_is_killed_takes_its_own_group_alone(features, results):
    @dataclass(frozen=True)
    class Killed(Procedure):
        def columns(self):
            return {"method": "killed"}

        def measure(self, clients, execution):
            if clients.seed == 1:
                os._exit(9)
            return {"accuracy": 1.0}

    run([experiment(Killed())], results, lambda *_: features, seeds=3, workers=2)
    assert sorted(row.seed for row in results.rows()) == [0, 0, 2, 2]
    [skipped] = results.skipped("tiny")
    assert "killed" in skipped.reason
