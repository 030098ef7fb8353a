"""What a real deployment on loopback trains, and whom and what it refuses."""

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import json
import time

import numpy as np
from deploy_loopback import HOST, node_key
from gated_sites import CLIENTS, pictures_of
from sites_on_loopback import fedcof_run

from fedcof import LinearHead
from fedcof.backbones.torch_backbone import network
from fedcof.data import ImageSet, Partition
from fedcof.experiments.training import on_images
from fedcof.federation.preflight import superlink_faults
from fedcof.federation.status import read_status
from fedcof.training import TrainingSettings, load_history
from fedcof.training.trained import TrainedModel

pytestmark = pytest.mark.slow


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
