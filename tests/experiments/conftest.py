import numpy as np
import pytest

from fedcof.data import FeatureTable
from fedcof.experiments import FeatureSet


@pytest.fixture(scope="session")
def features():
    """Four classes in six dimensions in two domains, and a test set."""
    rng = np.random.default_rng(3)
    means = 1.5 * rng.normal(size=(4, 6))

    def draw(count):
        labels = rng.permutation(np.arange(count) % 4)
        points = means[labels] + rng.normal(size=(count, 6))
        domains = np.array(["a", "b"])[rng.integers(2, size=count)]
        return FeatureTable(points.astype(np.float32), labels, tuple("0123"), {"domain": domains})

    return FeatureSet(draw(240), draw(100), "fingerprint")
