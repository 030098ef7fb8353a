import numpy as np
import pytest

from fedcof import FedNCM, LinearHead, merge
from fedcof.training import fit_temperature, scale


@pytest.fixture
def means(dealt):
    method = FedNCM()
    return merge([method.summarize(x, y, client_id=name) for name, x, y in dealt])


def cross_entropy(head, means):
    logits = head.decision_function(means.means)
    own = logits[np.arange(len(logits)), np.searchsorted(head.classes, means.classes)]
    return np.average(np.log(np.exp(logits).sum(axis=1)) - own, weights=means.counts)


def head(rng=0):
    return LinearHead(np.random.default_rng(rng).normal(size=(3, 6)), np.arange(3))


def test_the_factor_has_the_smallest_cross_entropy_on_the_means(means):
    factor = fit_temperature(head(), means)
    best = cross_entropy(scale(head(), factor), means)
    for other in (0.9 * factor, 1.1 * factor):
        assert best <= cross_entropy(scale(head(), other), means)


def test_the_factor_does_not_depend_on_the_scale_of_the_head(means):
    factor, tenth = fit_temperature(head(), means), fit_temperature(scale(head(), 10.0), means)
    assert tenth == pytest.approx(factor / 10, rel=1e-3)


def test_a_scaled_head_predicts_the_same(dealt):
    before = head().predict(dealt.test_features)
    np.testing.assert_array_equal(scale(head(), 7.0).predict(dealt.test_features), before)


def test_a_head_that_gets_all_means_right_has_a_finite_factor(means):
    right = LinearHead(np.eye(3, 6), np.arange(3))
    assert np.isfinite(fit_temperature(right, means))
