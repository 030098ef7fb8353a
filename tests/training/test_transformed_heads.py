"""Training from a head that transforms its features."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from fedcof import FedCOF, LinearHead
from fedcof.client import Sender
from fedcof.data import by_column
from fedcof.experiments import Dealt
from fedcof.experiments.training import probing, training_free_rounds, with_temperature
from fedcof.training import TrainingSettings
from fedcof.training.classifier import Classifier
from fedcof.training.heads import random_head, trained_head
from fedcof.training.trained import TrainedModel
from fedcof.transforms import parse

TRANSFORM = parse("power:0.5+standardize+random-features:12")
SETTINGS = TrainingSettings(rounds=2, client_lr=0.05, batch_size=8, participation=1.0)


@pytest.fixture
def dealt(rng):
    labels = rng.integers(3, size=90)
    features = (rng.normal(size=(90, 6)) + 2 * np.eye(3, 6)[labels]).astype(np.float32)
    partition = by_column(np.arange(60) % 4)
    return Dealt(features[:60], labels[:60], partition, features[60:], labels[60:])


def test_probing_goes_on_from_the_head_and_keeps_its_transform(dealt):
    sender = Sender(FedCOF(), transform=TRANSFORM)
    head, free, summaries = training_free_rounds(sender, dealt, SETTINGS)
    scaled = with_temperature(head, summaries)
    assert scaled.transform == head.transform == TRANSFORM.bound(6)
    state, history = probing(dealt, scaled).train(SETTINGS, history=free)
    assert history[len(free)].accuracy == free[-1].accuracy
    trained = trained_head(state, scaled, history, {})
    assert history[-1].accuracy == trained.score(dealt.test_features, dealt.test_labels) > 0.6


def test_a_classifier_has_the_transform_between_backbone_and_head(rng):
    head = random_head(6, range(3), seed=0, transform=TRANSFORM)
    inputs = rng.normal(size=(5, 6)).astype(np.float32)
    inputs[0, :3] = 0  # where a root is infinitely steep
    backbone = torch.nn.Linear(6, 6, bias=False)
    with torch.no_grad():
        backbone.weight.copy_(torch.eye(6))
    model = Classifier(backbone, head)
    logits = model(torch.tensor(inputs))
    np.testing.assert_allclose(
        logits.detach().numpy(), head.decision_function(inputs), rtol=1e-4, atol=1e-5
    )
    logits.square().sum().backward()
    assert torch.isfinite(backbone.weight.grad).all()
    assert backbone.weight.grad.any()


def test_a_trained_model_keeps_the_transform(tmp_path):
    weight = np.ones((2, 12), dtype=np.float32)
    bound = TRANSFORM.bound(6)
    TrainedModel({"head.weight": weight}, np.arange(2), {"name": "n"}, "f", bound).save(
        tmp_path / "model"
    )
    assert TrainedModel.load(tmp_path / "model").transform == bound


def test_a_random_head_has_rows_as_long_as_a_transformed_feature():
    head = random_head(6, [0, 1], seed=0, transform=TRANSFORM)
    assert isinstance(head, LinearHead)
    assert (head.dim, head.weight.shape) == (6, (2, 12))
