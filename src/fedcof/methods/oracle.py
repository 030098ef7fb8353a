"""FedCOF on covariances that the clients send: the oracle and its two cheap relatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.heads import LinearHead, solve_head
from fedcof.methods.base import Method, check_two_classes
from fedcof.scatter import ClassStatistics, Scatter
from fedcof.settings import setting
from fedcof.summaries import (
    ClassCovariances,
    ClassMoments,
    ClassSphericalVariances,
    ClassVariances,
    Summary,
    class_distributions,
)

M = TypeVar("M", bound=ClassMoments)


@dataclass(frozen=True)
class _SharedCovariances(Method[M]):
    """The solution of FedCOF with covariances that are pooled, not estimated.

    Parameters
    ----------
    shrinkage : float, default 1.0
        gamma, added to the diagonal of every class's covariance.
    """

    shrinkage: float = setting(
        1.0, "gamma, added to the diagonal of every class's covariance.", minimum=0
    )

    def pool(self, parts: Sequence[M]) -> Scatter:
        """Return the scatter of all clients."""
        labels, counts, means = [], [], []
        within: NDArray[np.float64] = np.zeros_like(parts[0].covariances[0], dtype=np.float64)
        for label, samples, mean, covariance in class_distributions(parts):
            labels.append(label)
            counts.append(samples)
            means.append(mean)
            within = within + (samples - 1) * covariance
        pooled = parts[0].as_matrix(within, parts[0].dim)
        return Scatter(np.array(labels), np.array(means), np.array(counts), pooled)

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> Scatter:
        """Return the scatter of the samples."""
        return self.pool([self.summarize(features, labels)])

    def fit(self, pooled: Scatter) -> LinearHead:
        """Return the solution of eq. classifier-init."""
        check_two_classes(pooled.classes)
        return LinearHead(solve_head(pooled.gram(self.shrinkage), pooled.sums), pooled.classes)


@dataclass(frozen=True)
class FedCOFOracle(_SharedCovariances[ClassCovariances]):
    """FedCOF on full covariances from every client, pooled by eq. cov_aggregate."""

    name: ClassVar[str] = "fedcof-oracle"
    summary_type: ClassVar[type[Summary]] = ClassCovariances

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> Scatter:
        """Return the scatter of the samples, without a matrix for every class."""
        return ClassStatistics.of_samples(features, labels).scatter()


@dataclass(frozen=True)
class FedCOFDiagonal(_SharedCovariances[ClassVariances]):
    """FedCOF on the diagonals of the clients' covariances (appendix, additional ablations)."""

    name: ClassVar[str] = "fedcof-diagonal"
    summary_type: ClassVar[type[Summary]] = ClassVariances


@dataclass(frozen=True)
class FedCOFSpherical(_SharedCovariances[ClassSphericalVariances]):
    """FedCOF on the mean variances of the clients (appendix, additional ablations)."""

    name: ClassVar[str] = "fedcof-spherical"
    summary_type: ClassVar[type[Summary]] = ClassSphericalVariances
