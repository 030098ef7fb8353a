"""Gaussian classes of one covariance, from what Fed3R's clients send."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.heads import LinearHead, solve_discriminant
from fedcof.methods.base import Method, check_two_classes
from fedcof.methods.fed3r import Fed3R
from fedcof.numerics import add_to_diagonal
from fedcof.scatter import Scatter
from fedcof.settings import setting
from fedcof.summaries import Gram, Summary, merge


@dataclass(frozen=True)
class GaussianHead(Method[Gram]):
    """A linear discriminant analysis with a covariance that a subclass takes from the sums."""

    summary_type: ClassVar[type[Summary]] = Gram

    def pool(self, parts: Sequence[Gram]) -> Gram:
        """Return the matrices of all clients."""
        return merge(parts)

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> Gram:
        """Return the matrices of the samples."""
        return Gram.summarize(features, labels)

    @abstractmethod
    def covariance(self, pooled: Gram) -> NDArray[np.float64]:
        """Return the covariance that all classes share."""

    def fit(self, pooled: Gram) -> LinearHead:
        """Return the discriminant analysis, with the classes' shares as priors."""
        check_two_classes(pooled.classes)
        weight, bias = solve_discriminant(
            pooled.sums / pooled.counts[:, None],
            self.covariance(pooled),
            pooled.counts / pooled.total,
        )
        return LinearHead(weight, pooled.classes, bias, probabilistic=True)


@dataclass(frozen=True)
class FedCGS(GaussianHead):
    """A discriminant analysis with the covariance of all samples about their common mean.

    Notes
    -----
    After "Capture Global Feature Statistics for One-Shot Federated Learning" (Guan et al., 2025)
    and its code, which takes the covariance about the global mean, not that within the classes,
    without shrinkage. Departures: a singular covariance is solved with the minimum norm, where
    theirs inverts it; clients do not send the sum of all features, which is that of the classes.
    """

    name: ClassVar[str] = "fedcgs"

    def covariance(self, pooled: Gram) -> NDArray[np.float64]:
        """Return the covariance about the global mean."""
        total = pooled.sums.sum(axis=0, dtype=np.float64)
        scatter = pooled.gram - np.outer(total, total) / pooled.total
        return np.asarray(scatter / max(1, pooled.total - 1))


@dataclass(frozen=True)
class GHLDA(GaussianHead):
    """A discriminant analysis with the covariance within the classes, blended with a sphere.

    Parameters
    ----------
    blend : float, default 0.05
        The share of the sphere of the same trace.

    Notes
    -----
    GH-LDA of "The Gaussian-Head OFL Family" (Turazza et al., 2026) and its code. Departure: clients
    do not send the diagonals of the classes' second moments, which its other heads need. Fed3R with
    the form lda is the same but for the blend.
    """

    name: ClassVar[str] = "gh-lda"

    blend: float = setting(
        0.05, "The share of the sphere in a covariance of the Gaussian heads.", minimum=0, maximum=1
    )

    def covariance(self, pooled: Gram) -> NDArray[np.float64]:
        """Return the blended covariance within the classes."""
        return blended(within_scatter(pooled).covariance(0.0), self.blend)


def within_scatter(pooled: Gram) -> Scatter:
    """Return the class means and the scatter within the classes, as Fed3R's form lda takes them."""
    return Fed3R().scatter_of(pooled)


def blended(covariance: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Return a covariance with a share of the sphere of the same trace.

    Examples
    --------
    >>> blended(np.diag([3.0, 1.0]), 0.5)
    array([[2.5, 0. ],
           [0. , 1.5]])
    """
    sphere = share * np.trace(covariance) / len(covariance)
    return add_to_diagonal((1 - share) * covariance, sphere)
