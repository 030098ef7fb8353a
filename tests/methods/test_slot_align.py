import numpy as np
import pytest

from fedcof import Fed3R
from fedcof.methods.slot_align import (
    Gaussian,
    SLOTAlign,
    barycentre,
    common_gaussians,
    moved,
    transport_matrix,
)
from fedcof.summaries import Gram

pytestmark = pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")


def test_the_barycentre_of_two_lines_is_between_them():
    # In one dimension the deviation of the barycentre is the mean of the deviations.
    one = Gaussian(np.array([0.0]), np.array([[1.0]]))
    other = Gaussian(np.array([4.0]), np.array([[9.0]]))
    found = barycentre([one, other], np.array([0.25, 0.75]))
    np.testing.assert_allclose(found.mean, [3.0])
    np.testing.assert_allclose(found.covariance, [[(0.25 + 0.75 * 3) ** 2]], rtol=1e-6)


def test_the_transport_brings_one_covariance_to_the_other_and_is_symmetric(rng):
    source, target = (np.cov(rng.normal(size=(4, 30))) for _ in range(2))
    matrix = transport_matrix(source, target)
    np.testing.assert_allclose(matrix @ source @ matrix.T, target, atol=1e-10)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-10)


def test_moving_a_statistic_is_moving_the_samples(rng):
    features, labels = rng.normal(size=(40, 3)) + 2.0, rng.integers(2, size=40)
    own = Gram.summarize(features, labels)
    (source,) = common_gaussians([own])
    target = Gaussian(np.zeros(3), np.diag([1.0, 2.0, 3.0]))
    full = transport_matrix(source.covariance, target.covariance)
    there = (features - source.mean) @ full.T + target.mean
    expected = Gram.summarize(0.7 * features + 0.3 * there, labels)
    found = moved(own, source, target, 0.3)
    np.testing.assert_allclose(found.gram, expected.gram, rtol=1e-10)
    np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-10)


def test_without_transport_it_is_fed3r(blobs, deal):
    method = SLOTAlign(transport=0.0)
    np.testing.assert_allclose(
        method.solve(deal(method, *blobs)).weight,
        Fed3R().solve(deal(Fed3R(), *blobs)).weight,
        rtol=1e-8,
        atol=1e-10,
    )


def test_a_client_of_one_sample_is_moved_and_not_stretched():
    # Its covariance of zero was stretched to that of all clients, and the head overflowed.
    method = SLOTAlign()
    parts = [
        method.summarize([[0.0, 1.0], [2.0, 1.0], [1.0, 4.0]], [0, 0, 1], client_id="a"),
        method.summarize([[5.0, 1.0]], [1], client_id="b"),
    ]
    assert np.abs(method.pool(parts).gram).max() < 100
