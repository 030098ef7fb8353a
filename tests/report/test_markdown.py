import json
from dataclasses import replace

import pytest
from tiny_experiments import EXPERIMENT, rows_of
from typer.testing import CliRunner

from fedcof.cli import app
from fedcof.experiments import EXPERIMENTS, Results
from fedcof.report.markdown import as_markdown
from fedcof.report.sections import gather


@pytest.fixture
def runs(tmp_path, monkeypatch):
    experiment = replace(
        EXPERIMENT, notes=("A note on G_btw.",), findings={("one", "net"): ("FedCOF leads.",)}
    )
    monkeypatch.setitem(EXPERIMENTS, "tiny", experiment)
    results = Results(tmp_path / "runs")
    for row in rows_of(experiment, seeds=2):
        results.append(row)
    return tmp_path / "runs"


def test_every_place_has_its_command_its_table_and_what_was_found(runs):
    text = as_markdown(gather([runs]))
    first, second = text.split("    fedcof reproduce tiny --dataset ")[1:]
    assert first.startswith("one --backbone net --data DATA\n")
    assert "one, net, 3 clients, α 0.1, 2 seeds:" in first
    assert "| FedCOF, γ 0.1 | 41.0 ± 1.4 | 50.0 ± 0.5 | −9.0 | 2.5 ± 0.0 |" in first
    assert "- FedCOF leads." in first
    assert "leads" not in second
    assert "| method | accuracy (%) | sent (MB) |" in second
    assert r"- A note on G\_btw." in text


def test_what_was_not_run_is_listed_without_the_paths_of_this_machine(runs):
    entry = {"experiment": "tiny", "short_rounds": None, "dataset": "cars", "backbone": "net"}
    skipped = [entry | {"reason": "cars is not in /home/me/data"}]
    (runs / "skipped.json").write_text(json.dumps(skipped))
    text = as_markdown(gather([runs]))
    assert "- A title with 5 % & more: Stanford Cars, net" in text
    assert "/home/me" not in text


def test_no_cell_can_break_its_table(runs):
    rows = (runs / "results.jsonl").read_text()
    (runs / "results.jsonl").write_text(rows.replace('"net"', '"a|b"'))
    assert r"a\|b" in as_markdown(gather([runs]))


def test_command_writes_it_in_place_of_the_page(runs, tmp_path):
    out = tmp_path / "docs"
    result = CliRunner().invoke(app, ["report", str(runs), "--markdown", "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert (out / "results.md").read_text() == as_markdown(gather([runs]))
    assert not (out / "report.html").exists()
