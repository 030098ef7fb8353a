"""Membership inference: what was released, and what it says of whether a sample was in it.

Three attacks, each a likelihood ratio: on class means, by what is known of features in general; on
heads, by heads that the attacker makes itself (LiRA, Carlini et al. 2022); and on a mechanism, by
one who knows all but one sample (a canary), which is the attacker of differential privacy. The
larger a score, the more a sample looks like a member.

A score per trial is all that `roc` and `epsilon_lower_bound` need. The bound is of Clopper and
Pearson: it holds with its confidence for any mechanism, without a prior and whatever the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, special, stats

from fedcof.numerics import GroupSums, outer_products

_COUNTS = (1, 2, 3, 4, 6, 9, 13, 20, 30, 50, 100, 300)
"""Where the count behind a mean is not known, it may be each of these."""

_ROUNDING = 1e-10
"""The variance of rounding, relative to that of a feature: a mean over one sample is the sample up
to it."""

_SHARES = special.expit(np.linspace(-10, 10, 200))
"""Of the scores, those that are below a threshold that is tried; most are close to none or all."""


@dataclass(frozen=True, eq=False)
class Population:
    """What an attacker knows of features in general, from samples of its own.

    Parameters
    ----------
    classes : ndarray of int or str, shape (classes,)
        In ascending order.
    means : ndarray of float64, shape (classes, dim)
    variances : ndarray of float64, shape (dim,)
        The eigenvalues of the covariance within a class, one for all classes.
    directions : ndarray of float64, shape (dim, dim)
        Its eigenvectors, in columns.
    """

    classes: NDArray[Any]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    directions: NDArray[np.float64]

    @classmethod
    def of_samples(cls, features: NDArray[np.floating[Any]], labels: NDArray[Any]) -> Self:
        """Return the means of the classes and the covariance about them.

        A hundredth of the mean variance is added to each: the small eigenvalues of a covariance
        from samples are too small.
        """
        classes, class_index = np.unique(labels, return_inverse=True)
        means = GroupSums.of([features], class_index, len(classes)).means
        deviations = features - means[class_index]
        covariance = outer_products([deviations], np.float64) / (len(features) - len(classes))
        variances, directions = linalg.eigh(covariance)
        return cls(classes, means, np.maximum(variances, 0) + 0.01 * variances.mean(), directions)


def mean_log_ratios(
    population: Population,
    means: NDArray[np.floating[Any]],
    classes: NDArray[Any],
    targets: NDArray[np.floating[Any]],
    counts: NDArray[Any] | None = None,
    *,
    noise: ArrayLike = 0.0,
) -> NDArray[np.float64]:
    """Return for every trial how much likelier a class mean is with the target among its samples.

    With the other samples drawn from the population, N(mu, S), the mean of n samples is
    N(mu, S / n) without the target x, and N(((n - 1) mu + x) / n, (n - 1) S / n^2) with it.

    Parameters
    ----------
    population : Population
    means : ndarray of float, shape (trials, dim)
        What was released.
    classes : ndarray, shape (trials,)
        The class of each, one of the population's.
    targets : ndarray of float, shape (trials, dim)
        The features of those who may be members.
    counts : ndarray of int, shape (trials,), optional
        How many samples are behind every mean. Without them the attacker takes each of several for
        as likely.
    noise : float or array_like, shape (trials,), default 0
        The variance of the noise in every number of a released mean.

    Returns
    -------
    ndarray of float64, shape (trials,)
        The logarithm of the ratio of likelihoods.
    """
    centres = population.means[np.searchsorted(population.classes, classes)]
    shifts = (means - centres) @ population.directions
    pulls = (targets - centres) @ population.directions
    own = population.variances
    extra = np.broadcast_to(np.asarray(noise, dtype=np.float64), (len(means),))[:, None]
    extra = extra + _ROUNDING * own.mean()
    with_target, without = [], []
    for n in [counts] if counts is not None else [np.full(len(means), n) for n in _COUNTS]:
        n = np.asarray(n, dtype=np.float64)[:, None]  # noqa: PLW2901
        with_target.append(_log_density(shifts - pulls / n, own * (n - 1) / n**2 + extra))
        without.append(_log_density(shifts, own / n + extra))
    return np.asarray(special.logsumexp(with_target, axis=0) - special.logsumexp(without, axis=0))


def _log_density(
    deviations: NDArray[np.float64], variances: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log density of independent normal numbers, but for a constant, shape (trials,)."""
    return np.asarray(-0.5 * (deviations**2 / variances + np.log(variances)).sum(axis=1))


def shadow_log_ratios(
    scores: NDArray[np.floating[Any]], member: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the likelihood ratios of LiRA, each model in turn being the one that is attacked.

    Parameters
    ----------
    scores : ndarray of float, shape (models, targets)
        What every model says of every target, such as the margin of its class.
    member : ndarray of bool, shape (models, targets)
        Whether the target was among the model's samples; at least twice in the other models, and
        twice not.

    Returns
    -------
    ndarray of float64, shape (models, targets)
        The logarithm of N(score; in) / N(score; out), with the mean of each target over the other
        models, and one variance each for in and out over all targets.
    """
    log_density = []
    for one in (member, ~member):
        held = np.where(one, scores, 0.0)
        others = one.sum(axis=0) - one
        mean = (held.sum(axis=0) - held) / others
        # A score is further from the mean of the others than from one that it is part of.
        spread = np.square(scores - mean) * others / (others + 1)
        variance = spread[one].mean()
        fit = variance * (1 + 1 / others)
        log_density.append(-0.5 * ((scores - mean) ** 2 / fit + np.log(fit)))
    return np.asarray(log_density[0] - log_density[1])


def canary_scores(
    observed: NDArray[np.floating[Any]],
    without: NDArray[np.floating[Any]],
    canary: NDArray[np.floating[Any]],
    scales: ArrayLike = 1.0,
) -> NDArray[np.float64]:
    """Return the likelihood ratio of one who knows all but the canary, for Gaussian noise.

    Parameters
    ----------
    observed : ndarray of float, shape (trials, numbers)
        What was released: ``without`` or ``without + canary``, and noise.
    without, canary : ndarray of float, shape (numbers,)
        What is released without noise, and by how much the canary changes it.
    scales : float or array_like, shape (numbers,), default 1
        The deviation of the noise in every number. A number without noise, of the deviation 0,
        decides alone if the canary changes it.

    Returns
    -------
    ndarray of float64, shape (trials,)
        0 where both are equally likely.
    """
    scales = np.broadcast_to(np.asarray(scales, dtype=np.float64), np.shape(canary))
    exact = (scales == 0) & (canary != 0)
    weights = np.divide(canary, scales**2, out=np.zeros(scales.shape), where=scales > 0)
    if exact.any():
        weights = np.where(exact, canary, 0.0)
    return np.asarray((observed - without - canary / 2) @ weights)


class Roc(NamedTuple):
    """The rates of an attack at every threshold, from the strictest to the laxest."""

    false_positives: NDArray[np.float64]
    true_positives: NDArray[np.float64]

    def at(self, false_positives: float) -> float:
        """Return the rate of true positives at a rate of false ones that is not exceeded."""
        within = self.false_positives <= false_positives
        return float(self.true_positives[within].max(initial=0.0))

    @property
    def area(self) -> float:
        """The area under the curve; one half for an attack that knows nothing."""
        return float(np.trapezoid(self.true_positives, self.false_positives))


def roc(members: NDArray[np.floating[Any]], others: NDArray[np.floating[Any]]) -> Roc:
    """Return the rates of an attack that says "member" from some score on.

    Parameters
    ----------
    members, others : ndarray of float, shape (trials,)
        The scores of those who are members, and of those who are not.
    """
    thresholds = np.unique(np.concatenate([members, others]))
    rates = [
        1 - np.searchsorted(np.sort(scores), thresholds, side="left") / len(scores)
        for scores in (others, members)
    ]
    false, true = (np.concatenate([[0.0], rate[::-1]]) for rate in rates)
    return Roc(false, true)


def epsilon_lower_bound(
    members: NDArray[np.floating[Any]],
    others: NDArray[np.floating[Any]],
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """Return an epsilon that a mechanism exceeds, with a confidence, from what an attack reached.

    A mechanism that is (epsilon, delta)-private holds every attack to ``TPR <= exp(epsilon) FPR +
    delta``, and the rates of those it clears to the same. One half of the trials chooses the
    threshold and the side, the other half counts; the interval of Clopper and Pearson bounds both
    rates at once.

    Parameters
    ----------
    members, others : ndarray of float, shape (trials,)
        The scores of independent trials with and without the target; at least four each.
    delta : float, default 0
    confidence : float, default 0.95
        That the bound is not above the true epsilon.

    Returns
    -------
    float
        At least 0. With n trials each it is at most about ``log(n / 2) - log(-log((1 - confidence)
        / 2))``, however much is given away.
    """
    halves = [(members[start::2], others[start::2]) for start in (0, 1)]
    chosen = np.unique(np.quantile(np.concatenate(halves[0]), _SHARES, method="nearest"))
    by_side = _epsilons(*halves[0], chosen, delta, confidence)
    side, place = np.unravel_index(int(np.argmax(by_side)), by_side.shape)
    found = _epsilons(*halves[1], chosen[place : place + 1], delta, confidence)
    return float(max(found[side, 0], 0.0))


def _epsilons(
    members: NDArray[np.floating[Any]],
    others: NDArray[np.floating[Any]],
    thresholds: NDArray[np.floating[Any]],
    delta: float,
    confidence: float,
) -> NDArray[np.float64]:
    """Return the bounds of who says "member" from a threshold on, and of who says "none" below.

    Returns
    -------
    ndarray of float64, shape (2, thresholds)
    """
    true = (members[:, None] >= thresholds).sum(axis=0)
    false = (others[:, None] >= thresholds).sum(axis=0)
    risk = (1 - confidence) / 2
    said = _log_ratio((true, len(members)), (false, len(others)), delta, risk)
    cleared = (len(others) - false, len(others)), (len(members) - true, len(members))
    return np.stack([said, _log_ratio(*cleared, delta, risk)])


def _log_ratio(
    hits: tuple[NDArray[np.int64], int],
    slips: tuple[NDArray[np.int64], int],
    delta: float,
    risk: float,
) -> NDArray[np.float64]:
    """Return ``log((hit rate - delta) / slip rate)``, both rates at their pessimistic ends.

    Hits and slips are how often each happened, at several thresholds, and in how many trials.
    """
    hit, tries = hits
    slip, chances = slips
    least = np.where(hit > 0, stats.beta.ppf(risk, np.maximum(hit, 1), tries - hit + 1), 0.0)
    left = np.maximum(chances - slip, 1)
    most = np.where(slip < chances, stats.beta.ppf(1 - risk, slip + 1, left), 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(least - delta, 0.0)) - np.log(most))
