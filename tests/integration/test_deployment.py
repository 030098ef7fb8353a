"""A real deployment on loopback, with TLS: what kills do to it, what it sums, trains and refuses.

The deployment is started once, for all tests of this file.
"""

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import json
import os
import sqlite3
import time
from contextlib import closing

import numpy as np
import psutil
from deploy_loopback import HOST, kill, node_key
from gated_sites import CLIENTS, clients_of, pictures_of
from sites_on_loopback import (
    Deployment,
    clients_at,
    descendants,
    fedcof_run,
    head_of,
    head_of_one_process,
    report_of,
    stored,
    wait_until,
)

from fedcof import FedCOF, FedNCM, LinearHead
from fedcof.backbones.torch_backbone import network
from fedcof.data import ImageSet, Partition
from fedcof.experiments.training import on_images
from fedcof.federation.preflight import superlink_faults
from fedcof.federation.report import CollectionReport
from fedcof.federation.secure.rounds import STEPS
from fedcof.federation.secure.statistic import MASK
from fedcof.federation.status import read_status
from fedcof.training import TrainingSettings, load_history
from fedcof.training.trained import TrainedModel

pytestmark = pytest.mark.slow

soak = pytest.mark.skipif(
    "FEDCOF_SOAK_MINUTES" not in os.environ, reason="minutes each: `make soak` kills in every step"
)
SECURE = "secure=true classes=3 colluders=0.0 dropouts=0.3 min-clients=3"


@pytest.fixture(scope="module")
def loopback(tmp_path_factory):
    with Deployment(tmp_path_factory.mktemp("deployment")) as deployment:
        deployment.start()
        yield deployment


@pytest.fixture
def deployment(loopback):
    """Three sites, all of them running whatever the test before has killed."""
    for site, supernode in loopback.supernodes.items():
        if supernode.poll() is not None:
            loopback.start_site(site)
    return loopback


def kill_server_app(deployment):
    [server_app] = [
        process
        for process in descendants(deployment.superlink)
        if "flwr-serverapp" in " ".join(process.cmdline())
    ]
    server_app.kill()


def test_server_that_is_killed_asks_only_who_is_missing(deployment, tmp_path):
    site_2, site_3 = deployment.gates["site-2"], deployment.gates["site-3"]
    site_2.close()
    site_3.close()
    deployment.federate(tmp_path, stream=False)
    wait_until(lambda: stored(tmp_path) == clients_at("site-1"))
    wait_until(lambda: site_2.is_waited_at() and site_3.is_waited_at())
    kill_server_app(deployment)

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


def federate_securely(deployment, run_folder, more="", **options):
    deployment.federate(run_folder, more=f"{SECURE} {more}", **options)


def assert_head_of(run_folder, method, *sites):
    """Check that the head of a run is that of the clients of some sites."""
    clients = {name: data for site in sites for name, data in clients_of(site).items()}
    parts = [method.summarize(*data, client_id=name) for name, data in clients.items()]
    head, expected = LinearHead.load(run_folder / "head.safetensors"), method.solve(parts)
    np.testing.assert_allclose(
        head.weight, expected.weight, rtol=0, atol=1e-6 * np.abs(expected.weight).max()
    )
    assert head.provenance.clients == len(clients)
    assert CollectionReport.load(run_folder / "report.json").answered == clients.keys()
    with closing(sqlite3.connect(run_folder / "summaries.sqlite")) as database:
        assert database.execute("SELECT * FROM summaries").fetchall() == []


@pytest.mark.parametrize(
    ("exchange", "method"),
    [
        (MASK, FedCOF()),  # which takes a second sum over those who are left
        *(
            pytest.param(exchange, FedNCM(), marks=soak)
            for exchange in range(5)
            if exchange != MASK
        ),
    ],
)
def test_a_server_and_a_site_that_are_killed_in_a_step_of_a_sum(
    exchange, method, deployment, tmp_path
):
    step, held = STEPS[exchange], deployment.gates["site-3"]
    held.close(step)
    federate_securely(deployment, tmp_path, f'method="{method.name}"', stream=False)
    wait_until(held.is_waited_at)
    kill_server_app(deployment)
    assert not (tmp_path / "head.safetensors").exists()

    held.close(step)  # in the run that follows; lets go of the one that was killed
    federate_securely(deployment, tmp_path, f'method="{method.name}"', stream=False)
    wait_until(held.is_waited_at)
    kill(deployment.supernodes["site-3"])
    held.open()
    wait_until((tmp_path / "sum-1.safetensors").exists)
    wait_until((tmp_path / "head.safetensors").exists)
    masked = exchange > MASK  # its numbers are in the sum that the others open
    assert_head_of(tmp_path, method, "site-1", "site-2", *["site-3"] * masked)
    report = CollectionReport.load(tmp_path / "report.json")
    tried = report.sums[0]
    assert tried.dropped == dict.fromkeys(clients_of("site-3"), f"{step}: it went offline")
    assert report.missing == ({} if masked else tried.dropped)


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


def test_a_refused_setting_ends_the_run_with_one_line_and_1(deployment, tmp_path):
    done = fedcof_run(deployment, f'run-folder="{tmp_path}" train-rounds=1 train-mode="guess"')
    assert done.returncode == 1
    [line] = [one for one in done.stderr.splitlines() if one.startswith("error:")]
    assert line == "error: train-mode must be one of probe, finetune, prompt, it is 'guess'"
    assert "Traceback" not in done.stdout + done.stderr
    assert read_status(tmp_path).state == "failed"


def test_a_run_is_started_and_waited_for_and_a_dry_run_before_it(deployment, tmp_path):
    settings = f'run-folder="{tmp_path / "run"}" timeout=300.0 min-clients=6'
    dry = fedcof_run(deployment, settings, "--dry-run")
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert "3 of 3 sites are ready, with 6 clients" in dry.stdout
    assert not (tmp_path / "run" / "summaries.sqlite").exists()
    done = fedcof_run(deployment, settings, "--log-json")
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["event"] == "end"
    assert read_status(tmp_path / "run").answered == 6


@pytest.mark.parametrize(("ahead", "words"), [(0, ""), (3600, "ahead of"), (-3600, "behind")])
def test_a_site_with_another_clock_than_the_superlink_is_told(deployment, ahead, words):
    faults = superlink_faults(
        f"{HOST}:{deployment.port}",
        deployment.folder / "server.crt",
        now=lambda: time.time() + ahead,
    )
    assert [words in fault for fault in faults] == [True] * bool(words)


def test_supernode_whose_key_is_not_registered_is_refused(deployment):
    node_key(deployment.folder / "stranger")
    stranger = deployment.start_supernode("stranger", 'data="nothing"')
    assert stranger.wait(240) != 0
    assert "Failed to activate SuperNode" in deployment.log("stranger").read_text()
