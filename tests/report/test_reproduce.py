import json
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedcof.cli import app
from fedcof.experiments import EXPERIMENTS, Results


def invoke(*arguments, **env):
    return CliRunner().invoke(app, ["reproduce", *arguments], env={"COLUMNS": "160", **env})


def test_list_names_every_experiment():
    result = invoke("--list")
    assert result.exit_code == 0
    for name in EXPERIMENTS:
        assert name in result.output


def test_rows_of_a_set_of_ones_own(runs):
    lines = (runs / "results.jsonl").read_text().splitlines()
    table1 = [row for row in map(json.loads, lines) if row["experiment"] == "table1"]
    assert len(table1) == 2 * 6
    assert all(0 <= row["accuracy"] <= 1 for row in table1)


def test_second_run_prints_the_table_without_running(images, runs):
    before = (runs / "results.jsonl").read_bytes()
    options = ("--dataset", f"folder:{images}", "--backbone", "squeezenet1.1", "--seeds", "2")
    result = invoke("table1", *options, "--out", str(runs))
    assert result.exit_code == 0
    assert "FedCOF oracle, γ 0.1" in result.output
    assert "±" in result.output
    assert (runs / "results.jsonl").read_bytes() == before


def test_noise_is_skipped_in_words(images, runs):
    options = ("--dataset", f"folder:{images}", "--backbone", "squeezenet1.1", "--seeds", "1")
    result = invoke("perturbed_accuracy", *options, "--out", str(runs))
    assert result.exit_code == 1
    assert "skipped" in result.output
    assert "noise" in result.output


def test_missing_data_is_skipped_with_the_reason_and_no_number(tmp_path):
    result = invoke(
        "table_shrinkage", "--data", str(tmp_path), "--out", str(tmp_path / "runs"), FEDCOF_DATA=""
    )
    assert result.exit_code == 1
    assert "skipped imagenet-r" in result.output
    assert "skipped cub200" in result.output
    assert "36.5" not in result.output
    assert not (tmp_path / "runs" / "results.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (("tabel1",), "table1"),
        (("table1", "--dataset", "cifar-100"), "cifar100"),
        (("table1", "--backbone", "squeezenet"), "squeezenet1.1"),
    ],
)
def test_unknown_name_lists_near_ones(arguments, near, tmp_path):
    result = invoke(*arguments, "--out", str(tmp_path / "runs"))
    assert result.exit_code == 1
    assert near in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("width", [80, 160])
def test_a_narrow_terminal_breaks_no_number_and_goes_without_the_differences(
    width, tmp_path, monkeypatch
):
    row = {"experiment": "table1", "dataset": "cifar100", "backbone": "squeezenet1.1"}
    row |= {"partition": "dirichlet", "clients": 100, "alpha": 0.1, "method": "fedncm", "seed": 0}
    row |= {"accuracy": 0.41, "formula_bytes": 3_123_500_000, "wire_bytes": 3_123_600_000}
    row |= {"num_means": 2973}
    results = Results(tmp_path)
    results.append(row)
    monkeypatch.setattr("fedcof.experiments.run", lambda *options, **named: None)
    terminal = Console(width=width, file=StringIO())
    monkeypatch.setattr("fedcof.commands.reproduce.console", terminal)
    invoke("table1", "--dataset", "cifar100", "--out", str(tmp_path))
    shown = terminal.file.getvalue()
    assert all(number in shown for number in ("41.0", "3,123.5", "3,123.6", "2,973"))
    assert ("difference" in shown) == (width == 160)
