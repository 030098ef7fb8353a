"""The command in one process; over Ray it is tests/integration/test_simulation.py."""

import pytest
from typer.testing import CliRunner

import fedcof
from fedcof.cli import app

ARGUMENTS = ["federate", "--engine", "in-process", "--images", "200", "--clients", "5"]


@pytest.fixture
def federate(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))
    run_folder = tmp_path / "run"

    def federate(*arguments):
        return CliRunner().invoke(
            app, [*ARGUMENTS, "--run-folder", str(run_folder), *arguments]
        ), run_folder / "head.safetensors"

    return federate


def test_head_is_saved_and_told(federate):
    result, path = federate("--method", "fedncm")
    assert result.exit_code == 0, result.output
    assert fedcof.LinearHead.load(path).provenance.method == "fedncm"
    assert "accuracy" in result.output


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--method", "fedcoff", "fedcof"),
        ("--dataset", "cifar1000", "cifar100"),
        ("--dataset", "cifar100", "cifar100"),
        ("--backbone", "squeezenet", "squeezenet1.1"),
    ],
)
def test_bad_option_is_refused_in_words(federate, monkeypatch, option, value, word):
    monkeypatch.delenv("FEDCOF_DATA", raising=False)
    result, _ = federate(option, value)
    assert result.exit_code == 1
    assert word in result.output
    assert "Traceback" not in result.output


def test_flower_that_is_not_installed_is_told_how_to_get(federate, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result, _ = federate("--engine", "simulation")
    assert result.exit_code == 1
    assert "pip install 'fedcof[flower]'" in result.output
