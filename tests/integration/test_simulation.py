"""One real simulation by Ray; in a process of its own, since Ray leaves processes behind."""

import pytest

pytest.importorskip("flwr")

import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from fedcof.cli import app

pytestmark = pytest.mark.slow

FEDCOF = Path(sys.executable).with_name("fedcof")
ARGUMENTS = ["federate", "--clients", "20", "--images", "400"]


def test_simulation_gives_the_head_of_one_process_to_the_last_bit(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))
    options = ["--engine", "in-process", "--out", str(tmp_path / "in-process")]
    assert CliRunner().invoke(app, [*ARGUMENTS, *options]).exit_code == 0
    done = subprocess.run(
        [FEDCOF, *ARGUMENTS, "--out", str(tmp_path / "ray")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    heads = [(tmp_path / run / "head.safetensors").read_bytes() for run in ("in-process", "ray")]
    assert heads[0] == heads[1]
    assert "WARNING" not in done.stderr
