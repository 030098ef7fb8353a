"""A network and a head, trained together."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from fedcof.backbones.torch_backbone import network
from fedcof.training import TrainingSettings
from fedcof.training.batches import Images
from fedcof.training.classifier import Classifier
from fedcof.training.heads import random_head
from fedcof.training.local import Samples, Task, get_state, local_update


@torch.no_grad()
def test_products_in_bfloat16_leave_parameters_and_logits_in_float32():
    images = torch.randint(0, 256, (4, 32, 32, 3), dtype=torch.uint8)
    backbone = network("squeezenet1.1", preprocessing={"size": 32})
    head = random_head(512, range(3), seed=0)
    exact, rounded = (
        Classifier(backbone.module, head, backbone.preprocessing, precision=precision)(images)
        for precision in ("float32", "bf16")
    )
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, rtol=0, atol=0.03 * float(exact.abs().max()))


def test_fine_tuning_trains_backbone_and_head():
    images = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3)).astype(np.uint8)
    labels = np.arange(4) % 2
    backbone = network("squeezenet1.1", preprocessing={"size": 64})
    model = Classifier(backbone.module, random_head(512, labels, seed=0), backbone.preprocessing)
    start = get_state(model)
    samples = Samples(Images(images, backbone.preprocessing), torch.tensor(labels))
    update = local_update(model, samples, Task(start, TrainingSettings(), 1), "a")
    assert sum(value.size for value in start.values()) == 722_496 + 2 * 512
    assert not np.array_equal(update.state["head.weight"], start["head.weight"])
    assert not np.array_equal(
        update.state["backbone.fire9.expand3x3.weight"], start["backbone.fire9.expand3x3.weight"]
    )
