"""One real simulation by Ray; in a process of its own, since Ray leaves processes behind."""

import pytest

pytest.importorskip("flwr")

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
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


@contextmanager
def running_ray():
    """Run Ray in a process of its own; its address is yielded, and that it still runs checked."""
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{some.getsockname()[1]}"
    start = [FEDCOF.with_name("ray"), "start", "--head", "--block", "--node-ip-address=127.0.0.1"]
    options = [f"--port={address.split(':')[1]}", "--num-cpus=2", "--include-dashboard=false"]
    quiet = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    process = subprocess.Popen(
        [*start, *options], env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            with socket.socket() as some:
                if some.connect_ex(("127.0.0.1", int(address.split(":")[1]))) == 0:
                    break
            time.sleep(0.1)
        yield address
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait()


def test_a_simulation_joins_a_ray_that_runs_and_leaves_it_running(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))
    heads = []
    with running_ray() as address:
        for name in ("one", "another"):
            out = tmp_path / name
            done = subprocess.run(
                [FEDCOF, *ARGUMENTS, "--nodes", "2", "--address", address, "--out", str(out)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            heads.append((out / "head.safetensors").read_bytes())
    assert heads[0] == heads[1]
