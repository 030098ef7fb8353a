"""Training over Flower's ClientApp: the numbers of one process, whoever holds the clients."""

import logging
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from flwr.app import Context, RecordDict
from grid_double import NODES

from fedcof import FedCOF, LinearHead
from fedcof.errors import TrainingError
from fedcof.federation.client_app import app
from fedcof.federation.records import Job
from fedcof.federation.training import train
from fedcof.federation.training_grid import InProcessGrid
from fedcof.federation.training_server import client_nodes, probe, settings_of
from fedcof.training import TrainingSettings, load_history
from fedcof.training.local import Samples
from fedcof.training.probing import probe_clients

SETTINGS = TrainingSettings(rounds=3, client_lr=0.1, batch_size=4, participation=0.5)
JOB = Job(FedCOF(), data="grid_double:load_data")


class Nodes(InProcessGrid):
    """SuperNodes that run the ClientApp, with the clients that `NODES` gives them."""

    def __init__(self, nodes):
        super().__init__([], lambda task, client_ids: [])
        NODES.clear()
        NODES.update(nodes)

    def get_node_ids(self):
        return list(NODES)

    def send_and_receive(self, messages, *, timeout=None):
        return [
            app(message, Context(1, message.metadata.dst_node_id, {}, RecordDict(), {}))
            for message in messages
        ]


@pytest.fixture(autouse=True)
def _quiet():
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.CRITICAL)


@pytest.fixture
def head():
    return LinearHead(np.random.default_rng(0).normal(size=(3, 4)), np.arange(3))


def in_one_process(clients, head, settings=SETTINGS):
    samples = {name: Samples(torch.tensor(x), torch.tensor(y)) for name, (x, y) in clients.items()}
    grid = InProcessGrid(list(clients), partial(probe_clients, samples))
    start = {"head.weight": head.weight.astype(np.float32)}
    return train(grid, grid.nodes, start, settings, lambda state: 0.0)[0]["head.weight"]


def test_nodes_with_several_clients_train_as_one_process_does(clients, head, tmp_path):
    names = sorted(clients)
    grid = Nodes({7: {n: clients[n] for n in names[:4]}, 3: {n: clients[n] for n in names[4:]}})
    trained, rounds = probe(grid, head, JOB, SETTINGS, tmp_path)
    np.testing.assert_allclose(trained.weight, in_one_process(clients, head), rtol=1e-6)
    assert LinearHead.load(tmp_path / "head-trained.safetensors").weight.tolist() == (
        trained.weight.tolist()
    )
    assert [one.loss for one in load_history(tmp_path / "history.json")] == [
        one.loss for one in rounds
    ]


def test_a_client_that_cannot_train_is_named_by_a_code_and_the_others_go_on(
    clients, head, tmp_path
):
    features, labels = clients["c000"]
    clients["c000"] = (features, labels + 5)  # classes that the head does not have
    grid = Nodes({1: {"c000": clients.pop("c000")}, 2: clients})
    _, rounds = probe(grid, head, JOB, TrainingSettings(rounds=1, participation=1.0), tmp_path)
    assert rounds[1].clients == 5
    assert rounds[1].refused == ("client 'c000': its node answered with error 100",)


def test_a_client_that_two_nodes_hold_trains_once(clients):
    grid = Nodes({9: clients, 4: dict(list(clients.items())[:2])})
    nodes = client_nodes(grid, JOB)
    assert nodes == {name: 4 if name in ("c000", "c001") else 9 for name in clients}


def test_too_few_clients_are_told(clients):
    with pytest.raises(TrainingError, match="6 clients are there, 7 are needed"):
        client_nodes(Nodes({1: clients}), JOB, min_clients=7, timeout=0.0)


def test_settings_come_from_the_run_configuration():
    config = {"train-rounds": 5, "train-strategy": "fedadam", "train-server-lr": 0.1, "seed": 3}
    assert settings_of(config) == TrainingSettings(
        rounds=5, strategy="fedadam", server_lr=0.1, seed=3
    )


_SIMULATION = """
import sys
import numpy as np
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation
from fedcof import FedCOF, LinearHead
from fedcof.errors import TrainingError
from fedcof.federation.client_app import app
from fedcof.federation.records import Job
from fedcof.federation.simulation import _ray
from fedcof.federation.training_server import probe
from fedcof.training import TrainingSettings
from pathlib import Path

server = ServerApp()

@server.main()
def main(grid, context):
    folder = Path(sys.argv[1])
    probe(
        grid,
        LinearHead.load(folder / "head.safetensors"),
        Job(FedCOF(), data=str(folder / "data")),
        TrainingSettings(rounds=3, client_lr=0.1, batch_size=4, participation=0.5),
        folder,
        min_clients=6,
    )

run_simulation(server, app, 3, backend_config=_ray())
"""


def test_the_simulation_of_flower_trains_as_one_process_does(clients, head, tmp_path):
    (tmp_path / "data").mkdir()
    for name, arrays in {
        "features": [x for x, _ in clients.values()],
        "labels": [y for _, y in clients.values()],
        "clients": [np.repeat(name, len(y)) for name, (_, y) in clients.items()],
    }.items():
        np.save(tmp_path / "data" / f"{name}.npy", np.concatenate(arrays))
    head.save(tmp_path / "head.safetensors")
    done = subprocess.run(
        [sys.executable, "-c", _SIMULATION, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    trained = LinearHead.load(tmp_path / "head-trained.safetensors")
    np.testing.assert_allclose(trained.weight, in_one_process(clients, head), rtol=1e-5)
