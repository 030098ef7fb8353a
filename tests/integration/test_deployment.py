"""A real deployment on loopback, with TLS and registered SuperNodes, and what kills do to it."""

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import deploy_loopback
import numpy as np
import psutil
from deploy_loopback import Loopback, kill, node_key
from gated_sites import CLIENTS, Gate, clients_of, pictures_of

from fedcof import LinearHead
from fedcof.backbones.torch_backbone import network
from fedcof.data import ImageSet, Partition
from fedcof.experiments.training import on_images
from fedcof.methods import FedCOF
from fedcof.summaries import from_bytes
from fedcof.training import TrainingSettings, load_history
from fedcof.training.trained import TrainedModel

pytestmark = pytest.mark.slow


class Deployment(Loopback):
    """Three sites behind gates, all of them running."""

    def __init__(self, folder):
        path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        super().__init__(folder, {"PYTHONPATH": os.pathsep.join(path)})
        self.gates = {site: Gate(self.folder, site) for site in CLIENTS}
        self.supernodes = {}

    def start(self):
        self.superlink = self.start_superlink()
        for site in CLIENTS:
            self.register(site)
            self.start_site(site)

    def __exit__(self, *error):
        mine = descendants(*self._processes)
        super().__exit__(*error)
        _, alive = psutil.wait_procs(mine, timeout=30)
        for process in alive:
            process.kill()

    def start_site(self, site):
        """Start a SuperNode again and again, as a supervisor does, until it is let in."""
        log = self.log(site)
        before = count(log, "SuperNode ID")

        def let_in():
            return count(log, "SuperNode ID") > before

        def tried():
            return let_in() or self.supernodes[site].poll() is not None

        while not let_in():
            config = f'data="gated_sites:load_data" site="{site}" gates="{self.folder}"'
            self.supernodes[site] = self.start_supernode(site, config)
            wait_until(tried)

    def federate(self, run_folder, *, more="", stream=True):
        self.run(f'run-folder="{run_folder}" timeout=300 attempts=1 {more}', stream=stream)


def count(path, text):
    return path.read_text().count(text) if path.exists() else 0


def descendants(*processes):
    """All that processes have started and is alive."""
    return [
        child
        for process in processes
        if process.poll() is None
        for child in psutil.Process(process.pid).children(recursive=True)
    ]


def wait_until(condition, timeout=240):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def stored(run_folder):
    """The clients whose summaries are in a run folder."""
    try:
        with closing(
            sqlite3.connect(f"file:{run_folder}/summaries.sqlite?mode=ro", uri=True)
        ) as db:
            return {client_id for (client_id,) in db.execute("SELECT client_id FROM summaries")}
    except sqlite3.OperationalError:  # not there yet
        return set()


def clients_at(*sites):
    return {client_id for site in sites for client_id in clients_of(site)}


def head_of_one_process(clients, folder):
    """The bytes of the head that the same clients give in this process."""
    method = FedCOF()
    summaries = [
        from_bytes(method.summarize(*data, client_id=client_id).to_bytes())
        for client_id, data in clients.items()
    ]
    path = folder / "expected.safetensors"
    method.solve(summaries).save(path)
    return path.read_bytes()


def head_of(run_folder):
    return (run_folder / "head.safetensors").read_bytes()


def report_of(run_folder):
    report = json.loads((run_folder / "report.json").read_text())
    return {key: set(value) if isinstance(value, list) else value for key, value in report.items()}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    with Deployment(tmp_path_factory.mktemp("deployment")) as deployment:
        deployment.start()
        yield deployment


def test_script_of_the_guide_gives_the_head_of_one_process(tmp_path):
    subprocess.run([sys.executable, deploy_loopback.__file__, tmp_path], check=True)
    clients = {}
    for path in tmp_path.glob("site-*.npz"):
        with np.load(path) as site:
            for client_id in np.unique(site["clients"]).tolist():
                rows = site["clients"] == client_id
                clients[client_id] = (site["features"][rows], site["labels"][rows])
    assert len(clients) == 30
    assert head_of(tmp_path / "run") == head_of_one_process(clients, tmp_path)


def test_fine_tuning_gives_the_network_of_one_process(deployment, tmp_path):
    clients = {name: data for site in CLIENTS for name, data in pictures_of(site).items()}
    pixels, labels = (np.concatenate(part) for part in zip(*clients.values(), strict=True))
    np.savez(tmp_path / "test.npz", images=pixels, labels=labels)
    deployment.federate(
        tmp_path,
        more=f'backbone="squeezenet1.1" test-data="{tmp_path / "test.npz"}" min-clients=6 '
        'train-mode="finetune" train-rounds=1 train-batch-size=8',
    )
    model = TrainedModel.load(tmp_path / "model.safetensors")
    history = load_history(tmp_path / "history.json")
    assert [one.clients for one in history] == [6, 0, 2]
    assert np.mean(model.predict(pixels) == labels) == pytest.approx(history[-1].accuracy)

    everything = ImageSet(pixels, labels, ("0", "1", "2"))
    owners = Partition(np.repeat(np.arange(len(clients)), 12), tuple(clients))
    head = LinearHead.load(tmp_path / "head.safetensors")
    federation = on_images(everything, everything, owners, network("squeezenet1.1"), head)
    expected, _ = federation.train(TrainingSettings(rounds=1, batch_size=8))
    for name, value in expected.items():
        np.testing.assert_allclose(model.state[name], value, rtol=1e-5, atol=1e-6)


def test_a_refused_setting_ends_the_run_with_one_line(deployment, tmp_path, capfd):
    with suppress(subprocess.CalledProcessError):
        deployment.federate(tmp_path, more='train-rounds=1 train-mode="guess"')
    told = "".join(capfd.readouterr())
    [line] = [one for one in told.splitlines() if one.startswith("error:")]
    assert line == "error: train-mode must be one of probe, finetune, prompt, it is 'guess'"
    assert "Traceback" not in told

    def runs():
        deployment.flwr("list", "loopback", "--format", "json")
        return capfd.readouterr().out

    wait_until(lambda: "finished:failed" in runs())


def test_supernode_whose_key_is_not_registered_is_refused(deployment):
    node_key(deployment.folder / "stranger")
    stranger = deployment.start_supernode("stranger", 'data="nothing"')
    assert stranger.wait(240) != 0
    assert "Failed to activate SuperNode" in deployment.log("stranger").read_text()


def test_server_that_is_killed_asks_only_who_is_missing(deployment, tmp_path):
    site_2, site_3 = deployment.gates["site-2"], deployment.gates["site-3"]
    site_2.close()
    site_3.close()
    deployment.federate(tmp_path, stream=False)
    wait_until(lambda: stored(tmp_path) == clients_at("site-1"))
    wait_until(lambda: site_2.is_waited_at() and site_3.is_waited_at())
    [server_app] = [
        process
        for process in descendants(deployment.superlink)
        if "flwr-serverapp" in " ".join(process.cmdline())
    ]
    server_app.kill()

    site_2.open()
    site_3.close()
    deployment.federate(tmp_path, stream=False)
    wait_until(lambda: stored(tmp_path) == clients_at("site-1", "site-2"))
    wait_until(site_3.is_waited_at)
    orphans = descendants(deployment.superlink)
    deployment.superlink.kill()
    deployment.superlink.wait()
    _, alive = psutil.wait_procs(orphans, timeout=120)
    assert not alive
    assert not (tmp_path / "head.safetensors").exists()

    site_3.open()
    deployment.superlink = deployment.start_superlink()
    deployment.federate(tmp_path)
    report = report_of(tmp_path)
    assert report["resumed"] == clients_at("site-1", "site-2")
    assert report["asked"] == report["answered"] == clients_at("site-3")
    everyone = {name: data for site in CLIENTS for name, data in clients_of(site).items()}
    assert head_of(tmp_path) == head_of_one_process(everyone, tmp_path)


def test_supernode_that_is_killed_is_named_and_the_others_unharmed(deployment, tmp_path):
    others, dead = clients_at("site-1", "site-2"), clients_at("site-3")
    deployment.gates["site-3"].close()
    deployment.federate(tmp_path, stream=False)
    wait_until(deployment.gates["site-3"].is_waited_at)
    kill(deployment.supernodes["site-3"])
    wait_until((tmp_path / "head.safetensors").exists)
    report = report_of(tmp_path)
    assert report["answered"] == others
    assert report["missing"] == dict.fromkeys(dead, "it went offline")
    clients = clients_of("site-1") | clients_of("site-2")
    assert head_of(tmp_path) == head_of_one_process(clients, tmp_path)

    deployment.gates["site-3"].open()
    deployment.start_site("site-3")
    deployment.federate(tmp_path)
    report = report_of(tmp_path)
    assert report["resumed"] == others
    assert report["asked"] == report["answered"] == dead
    everyone = clients | clients_of("site-3")
    assert head_of(tmp_path) == head_of_one_process(everyone, tmp_path)
