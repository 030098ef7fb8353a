"""The file that training on images leaves."""

import pytest

pytest.importorskip("torch")

from dataclasses import replace

import numpy as np

from fedcof.backbones.torch_backbone import network
from fedcof.errors import TrainingError
from fedcof.heads import LinearHead, Provenance
from fedcof.training.heads import random_head
from fedcof.training.history import Round
from fedcof.training.local import get_state
from fedcof.training.trained import MODEL, TrainedModel, classifier, save_training

NETWORK = {
    "name": "squeezenet1.1",
    "preprocessing": {"size": 64},
    "pretrained": False,
    "seed": 3,
}


@pytest.fixture
def model():
    head = random_head(512, ["cat", "dog"], seed=0)
    net = network(**NETWORK)
    return TrainedModel(get_state(classifier(net, head)), head.classes, NETWORK, net.fingerprint)


def test_a_model_comes_back_as_it_was(model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    again = TrainedModel.load(tmp_path / "model.safetensors")
    assert again.network == NETWORK
    assert again.classes.tolist() == ["cat", "dog"]
    assert all(np.array_equal(again.state[name], model.state[name]) for name in model.state)
    images = np.random.default_rng(0).integers(0, 256, (5, 20, 20, 3)).astype(np.uint8)
    assert again.predict(images).tolist() == model.predict(images).tolist()


def test_a_model_predicts_by_what_was_trained(model):
    bias_only = model.state | {
        "head.weight": np.zeros((2, 512), np.float32),
        "head.bias": np.array([0.0, 1.0], np.float32),
    }
    images = np.zeros((2, 8, 8, 3), np.uint8)
    for sign, label in ((1, "dog"), (-1, "cat")):
        bias_only["head.bias"] *= sign
        changed = TrainedModel(bias_only, model.classes, NETWORK, model.fingerprint)
        assert changed.predict(images).tolist() == [label, label]


def test_a_truncated_model_is_named(model, tmp_path):
    path = tmp_path / "model.safetensors"
    model.save(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(TrainingError, match=r"model\.safetensors is not a whole model"):
        TrainedModel.load(path)


def test_a_head_is_not_a_model(tmp_path):
    path = tmp_path / "head.safetensors"
    LinearHead(np.ones((2, 3)), np.arange(2)).save(path)
    with pytest.raises(TrainingError, match="not a model of fedcof but"):
        TrainedModel.load(path)


def test_a_network_named_by_a_relative_folder_is_found_from_another_one(
    model, tmp_path, monkeypatch
):
    (tmp_path / "vit").mkdir()
    monkeypatch.chdir(tmp_path)
    made_from = {"name": "./vit"}
    start = LinearHead(np.ones((len(model.classes), 3)), model.classes)
    save_training(tmp_path, model.state, [], start, head="h", network=made_from)
    assert TrainedModel.load(tmp_path / MODEL).network == {"name": str(tmp_path / "vit")}


def test_a_trained_head_says_what_it_started_from_and_what_made_its_features(model, tmp_path):
    weight = np.ones((len(model.classes), 3))
    made_by = Provenance(
        "fedcof", {"shrinkage": 0.1}, clients=3, samples=9, origin={"backbone": "x"}
    )
    start = LinearHead(weight, model.classes, provenance=made_by)
    done = [
        Round(number, "training", 0.5, 100 * number, wire_bytes=0, clients=2, loss=0.1)
        for number in (1, 2)
    ]
    head = save_training(tmp_path, model.state, done, start, head="h").provenance
    assert head == LinearHead.load(tmp_path / "h").provenance
    assert (head.method, head.clients, head.samples, head.formula_bytes) == ("trained", 3, 9, 200)
    assert head.hyperparameters == {
        "start": "fedcof",
        "start-hyperparameters": {"shrinkage": 0.1},
        "rounds": 2,
    }
    assert head.origin == {"backbone": "x"}


def test_the_head_of_a_trained_network_is_not_that_of_the_network_before(model, tmp_path):
    start = LinearHead(np.ones((len(model.classes), 3)), model.classes)
    start = start.with_provenance(origin={"backbone": "x", "window": "0:9"})
    made_from = {"name": "squeezenet1.1"}
    head = save_training(tmp_path, model.state, [], start, head="h", network=made_from)
    assert len(head.provenance.origin["backbone"]) == 16
    assert head.provenance.origin["window"] == "0:9"


def test_a_model_is_not_put_upon_other_weights_than_it_was_trained_from(model):
    other = replace(model, network=NETWORK | {"seed": 4})
    with pytest.raises(TrainingError, match=r"trained from weights of squeezenet1\.1 with"):
        other.predict(np.zeros((1, 8, 8, 3), np.uint8))


def test_a_file_of_weights_is_found_from_another_folder(model, tmp_path, monkeypatch):
    (tmp_path / "mine.pth").touch()
    monkeypatch.chdir(tmp_path)
    start = LinearHead(np.ones((len(model.classes), 3)), model.classes)
    made_from = {"name": "resnet18@mine.pth"}
    save_training(tmp_path, model.state, [], start, head="h", network=made_from)
    [name] = TrainedModel.load(tmp_path / MODEL).network.values()
    assert name == f"resnet18@{tmp_path / 'mine.pth'}"
