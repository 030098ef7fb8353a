import json
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedcof.cli import app
from fedcof.data import Dirichlet
from fedcof.experiments import EXPERIMENTS, Results, Row


def invoke(*arguments, **env):
    return CliRunner().invoke(app, ["reproduce", *arguments], env={"COLUMNS": "160", **env})


def test_list_names_every_experiment():
    result = invoke("--list")
    assert result.exit_code == 0
    for name in EXPERIMENTS:
        assert name in result.output
    listed = json.loads(invoke("--list", "--json").stdout)
    assert [row["name"] for row in listed] == list(EXPERIMENTS)


def test_rows_of_a_set_of_ones_own(runs):
    lines = (runs / "results.jsonl").read_text().splitlines()
    table1 = [row for row in map(json.loads, lines) if row["experiment"] == "table1"]
    assert len(table1) == 2 * 6
    assert all(0 <= row["measured"]["accuracy"] <= 1 for row in table1)


def test_second_run_prints_the_table_without_running(images, runs):
    before = (runs / "results.jsonl").read_bytes()
    options = ("--dataset", f"folder:{images}", "--backbone", "squeezenet1.1", "--seeds", "2")
    result = invoke("table1", *options, "--out", str(runs))
    assert result.exit_code == 0
    assert "FedCOF oracle, γ 0.1" in result.output
    assert "±" in result.output
    document = json.loads(invoke("table1", *options, "--out", str(runs), "--json").stdout)
    [lines] = document["tables"]
    assert {line["setting"]["method"] for line in lines} >= {"fedncm", "fed3r", "fedcof"}
    assert all(line["seeds"] == [0, 1] for line in lines)
    assert all(0 < line["measured"]["accuracy"]["mean"] <= 100 for line in lines)
    assert (runs / "results.jsonl").read_bytes() == before


def test_several_experiments_are_run_one_after_the_other(images, tmp_path):
    options = ("--dataset", f"folder:{images}", "--backbone", "squeezenet1.1", "--seeds", "1")
    out = ("--out", str(tmp_path / "runs"))
    documents = json.loads(invoke("tab-scatter", "g_btw", *options, *out, "--json").stdout)
    assert [document["experiment"] for document in documents] == ["tab-scatter", "g_btw"]
    assert all(document["tables"] for document in documents)


def test_all_are_those_that_train_nothing(monkeypatch, tmp_path):
    names = []
    monkeypatch.setattr(
        "fedcof.experiments.run",
        lambda experiments, *_, **__: names.extend(one.name for one in experiments),
    )
    invoke("all", "--dataset", "cifar100", "--out", str(tmp_path))
    assert {"table1", "beyond", "ablation-left"} <= set(names)
    assert {"table_ft", "table_lp2", "fig_lp"}.isdisjoint(names)


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
    setting = {"dataset": "cifar100", "backbone": "squeezenet1.1", "method": "fedncm"}
    setting |= Dirichlet(100, 0.1).columns()
    measured = {"accuracy": 0.41, "formula_bytes": 3_123_500_000, "wire_bytes": 3_123_600_000}
    measured |= {"num_means": 2973}
    results = Results(tmp_path)
    results.append(Row("table1", 0, setting, measured))
    monkeypatch.setattr("fedcof.experiments.run", lambda *options, **named: None)
    terminal = Console(width=width, file=StringIO())
    monkeypatch.setattr("fedcof.commands.shared.console", terminal)
    shown = invoke("table1", "--dataset", "cifar100", "--out", str(tmp_path)).output
    assert all(number in shown for number in ("41.0", "3,123.5", "3,123.6", "2,973"))
    assert ("difference" in shown) == (width == 160)


@pytest.mark.parametrize("command", ["reproduce", "report"])
def test_a_folder_of_0_1_0_is_refused_in_words(command, tmp_path):
    flat = {"experiment": "table1", "accuracy": 0.41, "versions": {"fedcof": "0.1.0"}}
    (tmp_path / "results.jsonl").write_text(json.dumps(flat) + "\n")
    page = ["report", str(tmp_path), "-o", str(tmp_path / "page.html")]
    arguments = {"reproduce": ["reproduce", "table1", "--out", str(tmp_path)], "report": page}
    result = CliRunner().invoke(app, arguments[command], env={"COLUMNS": "160"})
    assert result.exit_code == 1
    assert "written by fedcof 0.1.0" in " ".join(result.output.split())
    assert json.loads((tmp_path / "results.jsonl").read_text()) == flat
