import numpy as np

from fedcof.methods.fishermix import FisherMix, fisher_subspace


def test_the_subspace_has_a_unit_covariance_and_the_directions_between_the_classes():
    # The classes differ along the second axis, whose variance within a class is 4.
    means = np.array([[0.0, -3.0, 0.0], [0.0, 3.0, 0.0]])
    basis = fisher_subspace(means, np.array([0.5, 0.5]), np.diag([1.0, 4.0, 9.0]))
    np.testing.assert_allclose(np.abs(basis), [[0.0], [0.5], [0.0]], atol=1e-12)


def test_a_direction_without_spread_within_the_classes_is_left_out():
    means = np.array([[0.0, -1.0], [1.0, 1.0]])
    basis = fisher_subspace(means, np.array([0.5, 0.5]), np.diag([1.0, 0.0]))
    np.testing.assert_allclose(np.abs(basis), [[1.0], [0.0]], atol=1e-12)


def test_the_head_takes_features_as_they_are_and_is_drawn_from_its_seed(rng, deal):
    labels = np.tile([0, 1, 2], 80)
    features = np.eye(3, 5)[labels] + rng.normal(size=(240, 5)) @ np.diag([0.1, 0.1, 0.1, 5, 5])
    method = FisherMix(samples_per_class=100)
    parts = deal(method, features, labels, np.arange(240) % 5)
    heads = [method.seeded(seed).solve(parts) for seed in (1, 1, 2)]
    assert heads[0].score(features, labels) > 0.98
    assert heads[0].weight.tobytes() == heads[1].weight.tobytes() != heads[2].weight.tobytes()
