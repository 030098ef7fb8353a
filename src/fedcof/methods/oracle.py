"""FedCOF on covariances that the clients send: the oracle and its two cheap relatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.methods.passes import ClassScatter, Pass, ScatterPass, Together, same
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
        scatter += _WithinClients().partial(parts)
        return Scatter(statistics.classes, class_means, statistics.class_counts, scatter)

    def streamed(self) -> Pass[Any]:
        """Return the one pass for both parts of the scatter."""
        return Together([ScatterPass(same), _WithinClients()], _pooled)

    def gram(self, pooled: Scatter) -> NDArray[np.float64]:
        """Return G of eq. classifier-init."""
        return pooled.gram(self.gamma)

    def covariance(self, scatter: Scatter) -> NDArray[np.float64]:
        """Return the pooled covariance, gamma on its diagonal."""
        return scatter.covariance(self.gamma)


class _WithinClients(Pass[NDArray[np.float64]]):
    """The sum of ``(n_kc - 1) Sigma_kc``, as a matrix."""

    def partial(self, parts: Sequence[ClassMoments]) -> NDArray[np.float64]:
        """Add up what the clients sent, in its size."""
        within = parts[0].within_clients()
        for part in parts[1:]:
            within += part.within_clients()
        return parts[0].as_matrix(within, parts[0].dim)

    def add(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add them."""
        return first + second

    def finish(self, total: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum."""
        return total


def _pooled(total: ClassScatter, within: NDArray[np.float64]) -> Scatter:
    totals = total.totals
    return Scatter(totals.classes, total.means, totals.counts, total.scatter + within)


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
