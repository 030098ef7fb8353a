"""Prompts before the patches of a ViT."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from fedcof.backbones.torch_backbone import network
from fedcof.backbones.torch_preprocessing import Prepare
from fedcof.training import TrainingSettings
from fedcof.training.batches import Images
from fedcof.training.classifier import Classifier
from fedcof.training.exchange import Task
from fedcof.training.heads import random_head
from fedcof.training.local import Samples, get_state, local_update, set_state
from fedcof.training.prompts import PromptedViT
from tiny_networks import save_resnet, save_vit

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:transformers.*")


@pytest.fixture(scope="module")
def vit_folder(tmp_path_factory):
    """A tiny ViT in the format of transformers."""
    return save_vit(tmp_path_factory.mktemp("vit"))


@pytest.fixture(scope="module")
def resnet_folder(tmp_path_factory):
    """A tiny ResNet in the format of transformers."""
    return save_resnet(tmp_path_factory.mktemp("resnet"))


def pictures(number=12, size=32):
    """Images whose brightness tells their class, and the labels."""
    rng = np.random.default_rng(0)
    labels = np.arange(number) % 2
    pixels = rng.integers(0, 100, (number, size, size, 3)) + 150 * labels[:, None, None, None]
    return pixels.astype(np.uint8), labels


@pytest.fixture
def prompted(vit_folder):
    backbone = network(str(vit_folder))
    vit = PromptedViT(backbone, pool_size=3, seed=0)
    return Classifier(vit, random_head(16, [0, 1], seed=0)), backbone.preprocessing


def test_only_prompts_and_head_are_trained_and_sent(prompted):
    model, _ = prompted
    assert {name: value.shape for name, value in get_state(model).items()} == {
        "backbone.prompts": (3, 16),
        "head.weight": (2, 16),
    }


def test_prompts_change_what_the_vit_sees(prompted):
    model, _ = prompted
    batch = torch.zeros(1, 3, 32, 32)
    state = get_state(model)
    with torch.no_grad():
        before = model.eval()(batch)
        set_state(model, {**state, "backbone.prompts": 10 * state["backbone.prompts"]})
        assert not torch.allclose(model(batch), before, rtol=1e-6, atol=0)


def test_a_pool_may_change_its_size(prompted):
    model, _ = prompted
    state = get_state(model)
    state["backbone.prompts"] = np.zeros((5, 16), np.float32)
    set_state(model, state)
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 2)
    assert get_state(model)["backbone.prompts"].shape == (5, 16)


def test_prompts_that_no_batch_selects_are_not_trained(vit_folder):
    backbone = network(str(vit_folder))
    vit = PromptedViT(backbone, pool_size=6, selected=2)
    images, labels = pictures()
    inputs = Images(images, backbone.preprocessing)
    model = Classifier(vit, random_head(16, [0, 1], seed=0), backbone.preprocessing).eval()
    start = get_state(model)
    selected = vit.select(model.prepare(inputs[np.arange(12)]))
    task = Task(start, TrainingSettings(optimizer="adam", local_epochs=3), 1)
    update = local_update(model, Samples(inputs, torch.tensor(labels)), task, "a")
    moved = (update.state["backbone.prompts"] != start["backbone.prompts"]).any(axis=1)
    assert moved.sum() < 6
    assert moved[selected].all()


def test_a_batch_gets_the_prompts_most_like_what_the_vit_says_without_them(vit_folder):
    backbone = network(str(vit_folder))
    vit = PromptedViT(backbone, pool_size=5, selected=2).eval()
    batch = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        vit.prompts[4] = backbone.module(batch)[0]
        vit.prompts[2] = 0.01 * vit.prompts[4]
        assert sorted(vit.select(batch[:1]).tolist()) == [2, 4]
        chosen = vit(batch[:1])
        vit.prompts[[0, 1, 3]] = -vit.prompts[4]
        torch.testing.assert_close(vit(batch[:1]), chosen)


def test_the_vit_is_left_as_it_was(vit_folder):
    backbone = network(str(vit_folder))
    batch = torch.zeros(1, 3, 32, 32)
    with torch.no_grad():
        before = backbone.module.eval()(batch)
        PromptedViT(backbone, pool_size=3)(batch)
        torch.testing.assert_close(backbone.module(batch), before, rtol=0, atol=0)


def test_prompt_tuning_lowers_the_loss(prompted):
    model, preprocessing = prompted
    model.prepare = Prepare(preprocessing)
    images, labels = pictures()
    samples = Samples(Images(images, preprocessing), torch.tensor(labels))
    settings = TrainingSettings(client_lr=0.1, local_epochs=1)
    first = local_update(model, samples, Task(get_state(model), settings, 1), "a")
    state = first.state
    for server_round in range(2, 12):
        last = local_update(model, samples, Task(state, settings, server_round), "a")
        state = last.state
    assert last.loss < 0.8 * first.loss


def test_prompts_need_a_vit(resnet_folder):
    with pytest.raises(ValueError, match="ViT"):
        PromptedViT(network(str(resnet_folder)))
