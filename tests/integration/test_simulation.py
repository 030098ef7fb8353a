"""Real simulations: ours, and Flower's in a process of its own, since Ray leaves some behind."""

import pytest

pytest.importorskip("flwr")

import subprocess
import sys
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from fedcof import FedCOF, LinearHead
from fedcof.cli import app
from fedcof.client import Sender
from fedcof.data import iid
from fedcof.federation.simulation import simulate, write_clients

pytestmark = pytest.mark.slow

FEDCOF = Path(sys.executable).with_name("fedcof")
ARGUMENTS = ["federate", "--clients", "20", "--images", "400"]

_FLOWER = """
import sys
from pathlib import Path
import numpy as np
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation
from fedcof import FedCOF
from fedcof.client import Sender
from fedcof.federation.client_app import app
from fedcof.federation.plan import Plan
from fedcof.federation.records import Job
from fedcof.federation.server_app import FlowerGrid
from fedcof.federation.serving import Settings, serve
from fedcof.scale.ray_engine import ray_engine

folder, server = Path(sys.argv[1]), ServerApp()

@server.main()
def main(grid, context):
    job = Job(Sender(FedCOF()), data=str(folder / "data"))
    for one_question in (True, False):
        plan = Plan(min_clients=6, one_question=one_question)
        serve(FlowerGrid(grid), Settings(job, folder / str(one_question), plan), pause=0.05)

with ray_engine():
    resources = {"num_cpus": 1, "num_gpus": 0.0}
    run_simulation(server, app, 3, backend_config={"client_resources": resources})
"""


def test_simulation_gives_the_head_of_one_process_to_the_last_bit(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))
    options = ["--engine", "in-process", "--out", str(tmp_path / "in-process")]
    assert CliRunner().invoke(app, [*ARGUMENTS, *options]).exit_code == 0
    done = subprocess.run(
        [FEDCOF, *ARGUMENTS, "--out", str(tmp_path / "simulation")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    heads = [
        (tmp_path / run / "head.safetensors").read_bytes() for run in ("in-process", "simulation")
    ]
    assert heads[0] == heads[1]
    assert "WARNING" not in done.stderr


def test_the_apps_give_the_same_head_in_the_simulation_of_flower(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    features = rng.normal(size=(90, 4)).astype(np.float32) + labels[:, None]
    partition = iid(90, 6, seed=0)
    head, _ = simulate(Sender(FedCOF()), features, labels, partition, tmp_path / "ours", nodes=3)
    (tmp_path / "data").mkdir()
    write_clients(tmp_path / "data", features, labels, partition)
    done = subprocess.run(
        [sys.executable, "-c", _FLOWER, tmp_path],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for one_question in ("True", "False"):
        theirs = LinearHead.load(tmp_path / one_question / "head.safetensors")
        np.testing.assert_array_equal(theirs.weight, head.weight)
