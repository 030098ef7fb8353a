"""Membership inference: attacks that can succeed, and a bound that holds."""

import numpy as np
import pytest
from scipy import optimize, stats

from fedcof.privacy.audit import (
    Population,
    canary_scores,
    epsilon_lower_bound,
    mean_log_ratios,
    roc,
    shadow_log_ratios,
)

TRIALS, DELTA = 20_000, 1e-5


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_rates_of_every_threshold():
    found = roc(np.array([3.0, 2.0, 2.0]), np.array([2.0, 1.0]))
    assert found.false_positives.tolist() == [0, 0, 0.5, 1]
    assert found.true_positives.tolist() == pytest.approx([0, 1 / 3, 1, 1])
    assert found.at(0.0) == pytest.approx(1 / 3)
    assert found.at(0.6) == 1
    # The members' 3 is above both others; each 2 is above one and ties with the other.
    assert found.area == pytest.approx((2 + 1.5 + 1.5) / 6)


def test_an_attack_that_knows_nothing_has_half_of_the_area_and_no_epsilon():
    same = np.zeros(100)
    assert roc(same, same).area == 0.5
    assert epsilon_lower_bound(same, same) == 0


def population(rng, dim=4):
    labels = np.arange(600) % 2
    spread = rng.normal(size=(dim, dim))
    features = rng.normal(size=(600, dim)) @ spread + 5 * labels[:, None]
    return Population.of_samples(features, labels)


def test_the_ratio_on_a_mean_is_that_of_two_normal_densities(rng):
    known = population(rng)
    mean, target, n, noise = rng.normal(size=4), rng.normal(size=4), 3, 0.2
    covariance = known.directions * known.variances @ known.directions.T
    own = known.means[1]
    added = noise * np.eye(4)
    expected = stats.multivariate_normal.logpdf(
        mean, ((n - 1) * own + target) / n, covariance * (n - 1) / n**2 + added
    ) - stats.multivariate_normal.logpdf(mean, own, covariance / n + added)
    [found] = mean_log_ratios(
        known, mean[None], np.array([1]), target[None], np.array([n]), noise=noise
    )
    assert found == pytest.approx(expected, rel=1e-6)


def draws(rng, known, trials):
    half = known.directions * np.sqrt(known.variances)
    return known.means[0] + rng.normal(size=(trials, len(half))) @ half.T


@pytest.mark.parametrize("counts_are_known", [True, False])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_members_of_small_classes_are_found_with_and_without_their_counts(rng, n, counts_are_known):
    known, trials = population(rng, dim=64), 300
    members, others = draws(rng, known, trials), draws(rng, known, trials)
    means = (members + sum(draws(rng, known, trials) for _ in range(n - 1))) / n
    counts = np.full(trials, n) if counts_are_known else None
    classes = np.zeros(trials, np.int64)
    scores = [mean_log_ratios(known, means, classes, who, counts) for who in (members, others)]
    assert roc(*scores).at(0.01) > 0.8
    large = epsilon_lower_bound(*scores)
    assert large > 2.5
    blurred = means + rng.normal(0, 500, means.shape)
    hidden = [
        mean_log_ratios(known, blurred, classes, who, counts, noise=500.0**2)
        for who in (members, others)
    ]
    assert epsilon_lower_bound(*hidden) < 0.5


def test_a_class_of_one_sample_gives_that_sample_away(rng):
    known = population(rng)
    sample = draws(rng, known, 50)
    sent = sample.astype(np.float32)
    ones, zeros = np.ones(50), np.zeros(50, np.int64)
    assert (mean_log_ratios(known, sent, zeros, sample, ones) > 40).all()
    assert (mean_log_ratios(known, sent, zeros, sample[::-1], ones) < -100).all()


def test_ratios_of_shadow_models_leave_the_attacked_model_out(rng):
    member = rng.permuted(np.arange(8)[:, None] < np.full(20, 4), axis=0)
    scores = rng.normal(size=(8, 20)) + member
    variances = [
        np.mean(
            [
                (scores[s, i] - scores[own[:, i] & (np.arange(8) != s), i].mean()) ** 2 * 3 / 4
                for s in range(8)
                for i in range(20)
                if own[s, i]
            ]
        )
        for own in (member, ~member)
    ]
    s, i = 2, 7
    expected = 0.0
    for own, variance, sign in zip((member, ~member), variances, (1, -1), strict=True):
        others = own[:, i] & (np.arange(8) != s)
        fit = np.sqrt(variance * (1 + 1 / others.sum()))
        expected += sign * stats.norm.logpdf(scores[s, i], scores[others, i].mean(), fit)
    assert shadow_log_ratios(scores, member)[s, i] == pytest.approx(expected)


def test_shadow_models_tell_members_where_they_raise_the_score_and_nowhere_else(rng):
    member = rng.permuted(np.arange(16)[:, None] < np.full(500, 8), axis=0)
    level = 5 * rng.normal(size=500)  # some targets are easy, members or not
    for shift, low, high in ((3.0, 0.9, 1.0), (0.0, 0.45, 0.55)):
        ratios = shadow_log_ratios(level + rng.normal(size=(16, 500)) + shift * member, member)
        assert low < roc(ratios[member], ratios[~member]).area < high


def deviation_for(epsilon, delta):
    """The deviation of Gaussian noise for a sensitivity of 1 (Balle and Wang 2018)."""

    def excess(sigma):
        middle, slope = 1 / (2 * sigma), epsilon * sigma
        return (
            stats.norm.cdf(middle - slope)
            - np.exp(epsilon) * stats.norm.cdf(-middle - slope)
            - delta
        )

    return optimize.brentq(excess, 1e-2, 1e3)


def measured(rng, scales, claimed, canary):
    """The epsilon that the attack measures where it takes the noise for what is claimed."""
    without = rng.normal(size=canary.size)
    inside, outside = (
        without + present * canary + scales * rng.normal(size=(TRIALS, canary.size))
        for present in (1, 0)
    )
    scores = [canary_scores(seen, without, canary, claimed) for seen in (inside, outside)]
    return epsilon_lower_bound(*scores, delta=DELTA)


CANARY = np.array([0.6, 0.0, 0.0, 0.8])


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_a_gaussian_mechanism_stays_below_what_it_states(rng, epsilon):
    sigma = deviation_for(epsilon, DELTA)
    assert 0.05 * epsilon < measured(rng, sigma, sigma, CANARY) < epsilon


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_noise_that_is_four_times_too_small_is_caught(rng, epsilon):
    sigma = deviation_for(epsilon, DELTA)
    assert measured(rng, sigma / 4, sigma, CANARY) > epsilon


def test_a_number_that_is_not_noised_is_caught(rng):
    sigma = deviation_for(1.0, DELTA) * np.array([1.0, 1.0, 1.0, 0.0])
    assert measured(rng, sigma, sigma, CANARY) > 5


def test_the_bound_is_below_the_true_epsilon_as_often_as_it_says(rng):
    # Randomised response: the truth with the chance e / (1 + e) is 1-private and no better.
    honest = np.e / (1 + np.e)
    bounds = [
        epsilon_lower_bound(
            (rng.random(400) < honest).astype(float), (rng.random(400) > honest).astype(float)
        )
        for _ in range(200)
    ]
    assert np.mean(np.array(bounds) <= 1.0) >= 0.95
    assert np.median(bounds) > 0.4


def test_the_bound_is_no_larger_than_the_trials_allow():
    most = epsilon_lower_bound(np.ones(2000), np.zeros(2000))
    assert most == pytest.approx(np.log(1000) - np.log(-np.log(0.025)), abs=0.01)
