import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof import Fed3R, SingularScatterWarning


def ridge_regression(features, labels, ridge):
    """Equation sol-ridge on all samples, by the normal equations; rows at length 1."""
    targets = (labels[:, None] == np.unique(labels)).astype(float)
    system = features.T @ features + ridge * np.eye(features.shape[1])
    weight = np.linalg.solve(system, features.T @ targets).T
    return weight / np.linalg.norm(weight, axis=1, keepdims=True)


@pytest.mark.parametrize("ridge", [0.0, 0.01, 10.0])
def test_the_head_is_ridge_regression_on_all_samples(blobs, deal, ridge):
    features, labels, _ = blobs
    head = Fed3R(ridge).solve(deal(Fed3R(ridge), *blobs))
    np.testing.assert_allclose(
        head.weight, ridge_regression(features, labels, ridge), rtol=1e-9, atol=1e-12
    )


@pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")  # of a few samples, by chance
@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_the_head_is_the_same_for_any_partition(deal, num_clients, seed):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(60, 4)) + 1.0, rng.integers(3, size=60)
    clients = np.random.default_rng(seed).integers(num_clients, size=60)
    head = Fed3R().solve(deal(Fed3R(), features, labels, clients))
    np.testing.assert_allclose(head.weight, ridge_regression(features, labels, 0.01), rtol=1e-9)


def test_without_a_ridge_fewer_samples_than_dimensions_get_the_minimum_norm_solution():
    method = Fed3R(ridge=0.0)
    with pytest.warns(SingularScatterWarning, match="rank 2 of 3"):
        head = method.solve([method.summarize(np.eye(3)[:2], ["a", "b"])])
    np.testing.assert_allclose(head.weight, np.eye(3)[:2], atol=1e-15)
