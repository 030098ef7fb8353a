"""The main job end to end, on a subset small enough for CI."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import fedcof
from fedcof.cli import app

pytestmark = pytest.mark.slow

ARGUMENTS = ["demo", "--images", "600", "--clients", "40", "--out"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    out = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDCOF_CACHE", str(tmp_path_factory.mktemp("cache")))
        return CliRunner().invoke(app, [*ARGUMENTS, str(out)]), out


def accuracies(out: Path) -> dict[str, float]:
    rows = json.loads((out / "results.json").read_text())["rows"]
    return {row["method"]: row["accuracy"] for row in rows}


def test_demo_ends_well_and_says_where_its_files_are(demo):
    result, out = demo
    assert result.exit_code == 0, result.output
    for name in ("head.safetensors", "results.json", "accuracy-vs-communication.png"):
        assert (out / name).stat().st_size > 0
        assert name in result.output.replace("\n", "")


def test_demo_compares_four_methods_and_fedcof_beats_fedncm(demo):
    _, out = demo
    reached = accuracies(out)
    assert list(reached) == ["fedncm", "fed3r", "fedcof", "fedcof-oracle"]
    assert reached["fedcof"] > reached["fedncm"]


def test_demo_sends_means_for_the_price_of_fedncm(demo):
    _, out = demo
    rows = {row["method"]: row for row in json.loads((out / "results.json").read_text())["rows"]}
    assert rows["fedcof"]["formula_bytes"] == rows["fedncm"]["formula_bytes"]
    assert rows["fedcof"]["formula_bytes"] < rows["fedcof"]["wire_bytes"]
    assert rows["fedcof"]["wire_bytes"] < rows["fed3r"]["wire_bytes"] / 10


def test_saved_head_is_the_one_of_fedcof(demo):
    _, out = demo
    head = fedcof.LinearHead.load(out / "head.safetensors")
    assert head.dim == 512
    assert head.provenance.method == "fedcof"
    assert head.provenance.samples == 450


def test_second_demo_run_gives_the_same_files(demo, tmp_path, monkeypatch):
    _, out = demo
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))  # its features are its own
    again = CliRunner().invoke(app, [*ARGUMENTS, str(tmp_path), "--json"])
    assert again.exit_code == 0
    assert json.loads(again.stdout) == json.loads((tmp_path / "results.json").read_text())
    assert accuracies(tmp_path) == accuracies(out)
    name = "head.safetensors"
    assert (tmp_path / name).read_bytes() == (out / name).read_bytes()


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [("--images", "7", "each"), ("--alpha", "-1", "alpha"), ("--alpha", "nan", "alpha")],
)
def test_demo_refuses_a_bad_option_in_words(option, value, word, tmp_path):
    arguments = ["demo", "--images", "40", option, value, "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert word in result.output
    assert "Traceback" not in result.output


def test_version_is_the_packages():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == fedcof.__version__
