"""Small federations that train in a moment."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from fedcof.data import Partition
from fedcof.experiments import Dealt
from fedcof.training.classifier import Classifier
from fedcof.training.heads import random_head
from fedcof.training.local import Samples, get_state

DIM, CLASSES = 6, 3


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny products are fastest without threads."""
    torch.set_num_threads(1)


def draw(rng, num_samples):
    """Features of classes that lie apart, and their labels."""
    labels = rng.integers(CLASSES, size=num_samples)
    features = rng.normal(size=(num_samples, DIM)) + 2 * np.eye(CLASSES, DIM)[labels]
    return features.astype(np.float32), labels


@pytest.fixture
def clients():
    """Clients with 1, 4, 7, ... samples: some smaller than a batch of 4, one with one class."""
    rng = np.random.default_rng(0)
    parts = {f"{k}": draw(rng, 1 + 3 * k) for k in range(6)}
    return {name: Samples(torch.tensor(x), torch.tensor(y)) for name, (x, y) in parts.items()}


@pytest.fixture
def model():
    """A random head on features."""
    return Classifier(torch.nn.Identity(), random_head(DIM, range(CLASSES), seed=0))


@pytest.fixture
def start(model):
    """The state of the random head."""
    return get_state(model)


@pytest.fixture
def dealt():
    """Features of 8 clients, and a test set."""
    rng = np.random.default_rng(1)
    features, labels = draw(rng, 160)
    partition = Partition(np.arange(160) % 8, tuple("abcdefgh"))
    return Dealt(features, labels, partition, *draw(rng, 100))
