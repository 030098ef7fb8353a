"""The file that training on images leaves."""

import pytest

pytest.importorskip("torch")

import numpy as np

from fedcof.backbones.torch_backbone import network
from fedcof.errors import TrainingError
from fedcof.heads import LinearHead
from fedcof.training.heads import random_head
from fedcof.training.local import get_state
from fedcof.training.trained import MODEL, TrainedModel, classifier, save_training

NETWORK = {"name": "squeezenet1.1", "size": 64, "pretrained": False, "seed": 3}


@pytest.fixture
def model():
    head = random_head(512, ["cat", "dog"], seed=0)
    net = network(**NETWORK)
    return TrainedModel(get_state(classifier(net, head)), head.classes, NETWORK)


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
        changed = TrainedModel(bias_only, model.classes, NETWORK)
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
    save_training(tmp_path, model.state, [], model.classes, head="h", network=made_from)
    assert TrainedModel.load(tmp_path / MODEL).network == {"name": str(tmp_path / "vit")}
