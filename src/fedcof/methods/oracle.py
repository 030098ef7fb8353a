"""FedCOF on covariances that the clients send: the oracle and its two cheap relatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.methods.shrunk import Shrunk
from fedcof.scatter import ClassStatistics, Scatter
from fedcof.settings import Auto, setting
from fedcof.summaries import (
    ClassCovariances,
    ClassMoments,
    ClassSphericalVariances,
    ClassVariances,
    Summary,
)

M = TypeVar("M", bound=ClassMoments)


@dataclass(frozen=True)
class _SharedCovariances(Shrunk[M]):
    """The solution of FedCOF with covariances that are pooled, not estimated.

    Parameters
    ----------
    shrinkage : float or "auto", default 1.0
        gamma, added to the diagonal of every class's covariance.
    shrinkage_relative, form, priors
        As in `Shrunk` and `ClosedForm`.
    """

    shrinkage: float | Auto = setting(
        1.0, "gamma, on the diagonal of every class's covariance; auto chooses it.", minimum=0
    )

    def pool(self, parts: Sequence[M]) -> Scatter:
        """Return the scatter of all clients (eq. cov_aggregate).

        It is that within the clients, in the size that they send it, and that between their means,
        which is known in full whatever this size.
        """
        statistics = ClassStatistics.gather(
            [part.means for part in parts],
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.classes for part in parts]),
        )
        class_means, scatter = statistics.scatter_of_means()
        within = parts[0].within_clients()
        for part in parts[1:]:
            within += part.within_clients()
        scatter += parts[0].as_matrix(within, parts[0].dim)
        return Scatter(statistics.classes, class_means, statistics.class_counts, scatter)

    def gram(self, pooled: Scatter) -> NDArray[np.float64]:
        """Return G of eq. classifier-init."""
        return pooled.gram(self.gamma)

    def covariance(self, scatter: Scatter) -> NDArray[np.float64]:
        """Return the pooled covariance, gamma on its diagonal."""
        return scatter.covariance(self.gamma)


@dataclass(frozen=True)
class FedCOFOracle(_SharedCovariances[ClassCovariances]):
    """FedCOF on full covariances from every client, pooled by eq. cov_aggregate."""

    name: ClassVar[str] = "fedcof-oracle"
    summary_type: ClassVar[type[Summary]] = ClassCovariances

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> Scatter:
        """Return the scatter of the samples, without a matrix for every class."""
        scatter = ClassStatistics.of_samples(features, labels).scatter()
        return replace(scatter, statistics=None)  # these means are the samples


@dataclass(frozen=True)
class FedCOFDiagonal(_SharedCovariances[ClassVariances]):
    """FedCOF on the diagonals of the clients' covariances (appendix, additional ablations).

    What lies between the clients' means is not reduced to its diagonal.
    """

    name: ClassVar[str] = "fedcof-diagonal"
    summary_type: ClassVar[type[Summary]] = ClassVariances


@dataclass(frozen=True)
class FedCOFSpherical(_SharedCovariances[ClassSphericalVariances]):
    """FedCOF on the mean variances of the clients (appendix, additional ablations).

    What lies between the clients' means is not reduced to its mean variance.
    """

    name: ClassVar[str] = "fedcof-spherical"
    summary_type: ClassVar[type[Summary]] = ClassSphericalVariances
