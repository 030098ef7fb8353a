"""Which transform helps the features of a backbone, measured on labelled images."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import SingularScatterWarning, SummaryError
from fedcof.heads import LinearHead, solve_head
from fedcof.scatter import ClassStatistics
from fedcof.summaries.samples import check_samples
from fedcof.transforms import NO_TRANSFORM, Transform, parse

CANDIDATES = tuple(
    map(
        parse,
        (
            "standardize",
            "power:0.75+standardize",
            "power:0.5+standardize",
            "power:0.75",
            "power:0.5",
        ),
    )
)
"""The transforms that are compared with none, those to be preferred first.

Standardising goes before not: where images of one class differ between sites, it gains what a
comparison without sites cannot show (FedCOF on PACS, by domain: 4 to 5 points).
"""

FOLDS = 5
"""Parts of the samples; each is held out once."""

_SHRINKAGES = (0.01, 0.03, 0.1, 0.3, 1.0)
"""As shares of the mean variance of a feature within the classes."""


@dataclass(frozen=True)
class Measured:
    """What a transform does for the features of a backbone.

    Parameters
    ----------
    transform : Transform
    accuracy : float
        Of the closed-form head on samples that were held out, from 0 to 1, with the best of a few
        shrinkages.
    lead : float
        How much that is above the accuracy without a transform.
    deviation : float
        The standard deviation of the lead, from the samples in which the two heads differ.
    """

    transform: Transform
    accuracy: float
    lead: float
    deviation: float


@dataclass(frozen=True)
class Advice:
    """The transforms that were compared, and the one to take.

    Parameters
    ----------
    measured : tuple of Measured
        First without a transform, then in the order of the candidates.
    recommended : Measured
        The first of the candidates that is not below the best of all by more than the standard
        deviation of that difference; without a transform where all are.
    samples, classes : int
        Of the images.
    """

    measured: tuple[Measured, ...]
    recommended: Measured
    samples: int
    classes: int


def advise(
    features: ArrayLike,
    labels: ArrayLike,
    *,
    candidates: Sequence[Transform] = CANDIDATES,
    seed: int = 0,
    advance: Callable[[int], None] = lambda steps: None,
) -> Advice:
    """Compare transforms by the accuracy of a closed-form head on samples that were held out.

    The head is that of exact scatters (eq. classifier-init), which FedCOF estimates; every sample
    is held out once, in one of five folds.

    Parameters
    ----------
    features : array_like of float, shape (n, dim)
        Of public images: what is found is declared to every client, so a federation's own data
        would tell of itself.
    labels : array_like of int or str, shape (n,)
    candidates : sequence of Transform
        Those to be preferred first.
    seed : int, default 0
        Deals the samples to the folds.
    advance : callable
        Called with 1 after every fold of every candidate.

    Raises
    ------
    SummaryError
        If the samples are not well-formed, or fewer than two classes have two samples for each
        fold.
    """
    array, coded = check_samples(features, labels)
    classes, index, counts = np.unique(coded, return_inverse=True, return_counts=True)
    if np.count_nonzero(counts >= 2 * FOLDS) < 2:
        raise SummaryError(
            "samples", f"fewer than two classes have {2 * FOLDS} samples, which the folds need"
        )
    folds = _folds(index, seed)
    compared = (NO_TRANSFORM, *candidates)
    right = [_right(transform(array), index, folds, advance) for transform in compared]
    measured = tuple(
        Measured(transform, float(hits.mean()), *_lead(hits, right[0]))
        for transform, hits in zip(compared, right, strict=True)
    )
    best = max(right, key=np.mean)
    good = [k for k, hits in enumerate(right) if np.subtract(*_lead(best, hits)) <= 0]
    recommended = measured[min(good, key=lambda k: (k == 0, k))]
    return Advice(measured, recommended, len(index), len(classes))


def _folds(index: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return the fold of every sample: those of a class are dealt in a random order, in turns."""
    order = np.random.default_rng(seed).permutation(len(index))
    by_class = order[np.argsort(index[order], kind="stable")]
    folds = np.empty(len(index), dtype=np.int64)
    folds[by_class] = np.arange(len(index)) % FOLDS
    return folds


def _right(
    features: NDArray[Any],
    index: NDArray[np.int64],
    folds: NDArray[np.int64],
    advance: Callable[[int], None],
) -> NDArray[np.bool_]:
    """Return which samples are right when they are held out, with the best shrinkage."""
    right = np.empty((len(_SHRINKAGES), len(index)), dtype=bool)
    for fold in range(FOLDS):
        held = folds == fold
        scatter = ClassStatistics.of_samples(features[~held], index[~held]).scatter()
        variance = float(np.trace(scatter.within(0.0))) / scatter.total / features.shape[1]
        for row, share in zip(right, _SHRINKAGES, strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SingularScatterWarning)
                weight = solve_head(scatter.gram(share * variance), scatter.sums)
            row[held] = LinearHead(weight, scatter.classes).predict(features[held]) == index[held]
        advance(1)
    return np.asarray(right[right.mean(axis=1).argmax()])


def _lead(hits: NDArray[np.bool_], others: NDArray[np.bool_]) -> tuple[float, float]:
    """Return how much more often one is right than the other, and the deviation of that."""
    differences = hits.astype(np.float64) - others
    return float(differences.mean()), float(differences.std() / len(hits) ** 0.5)
