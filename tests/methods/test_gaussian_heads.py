import numpy as np
import pytest

from fedcof import Fed3R
from fedcof.methods.gaussian_heads import GHLDA, FedCGS, blended


def log_posteriors(features, means, covariance, priors):
    """Of Gaussian classes, line by line, up to what all classes share."""
    inverse = np.linalg.inv(covariance)
    return np.stack(
        [
            features @ inverse @ m - m @ inverse @ m / 2 + np.log(p)
            for m, p in zip(means, priors, strict=True)
        ],
        axis=1,
    )


def differences(scores):
    return scores - scores[:, :1]


@pytest.fixture
def moments(blobs):
    features, labels, _ = blobs
    counts = np.bincount(labels)
    return np.stack([features[labels == c].mean(axis=0) for c in range(4)]), counts / counts.sum()


def test_fedcgs_takes_the_covariance_about_the_global_mean(blobs, deal, moments):
    features, *_ = blobs
    head = FedCGS().solve(deal(FedCGS(), *blobs))
    expected = log_posteriors(features, moments[0], np.cov(features.T), moments[1])
    found = head.decision_function(features)
    np.testing.assert_allclose(differences(found), differences(expected), rtol=1e-7, atol=1e-9)


def test_gh_lda_takes_that_within_the_classes_with_a_share_of_a_sphere(blobs, deal, moments):
    features, labels, _ = blobs
    within = (features - moments[0][labels]).T @ (features - moments[0][labels]) / (240 - 4)
    covariance = 0.7 * within + 0.3 * np.trace(within) / 6 * np.eye(6)
    head = GHLDA(blend=0.3).solve(deal(GHLDA(blend=0.3), *blobs))
    expected = log_posteriors(features, *moments[:1], covariance, moments[1])
    found = head.decision_function(features)
    np.testing.assert_allclose(differences(found), differences(expected), rtol=1e-7, atol=1e-9)


def test_without_a_blend_gh_lda_is_fed3r_of_the_form_lda(blobs, deal):
    features, *_ = blobs
    own = GHLDA(blend=0.0).solve(deal(GHLDA(), *blobs)).predict_proba(features)
    fed3r = Fed3R(ridge=0.0, form="lda").solve(deal(Fed3R(), *blobs)).predict_proba(features)
    np.testing.assert_allclose(own, fed3r, atol=1e-9)


def test_a_blend_keeps_the_trace():
    covariance = np.array([[3.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(blended(covariance, 1.0), 2.5 * np.eye(2))
    np.testing.assert_array_equal(blended(covariance, 0.0), covariance)
