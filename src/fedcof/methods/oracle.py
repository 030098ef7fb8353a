"""FedCOF on covariances that the clients send: the oracle and its two cheap relatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.heads import solve_head
from fedcof.methods.base import Method, check_at_least, check_two_classes
from fedcof.scatter import add_to_diagonal
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

    shrinkage: float = 1.0

    def __post_init__(self) -> None:
        check_at_least(0, shrinkage=self.shrinkage)

    def summarize(
        self,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        client_id: str = "",
        rng: np.random.Generator | int | None = None,
    ) -> M:
        """Return mean, count and covariance of every class."""
        summary: M = self.summary_type.summarize(features, labels, client_id=client_id)  # type: ignore[attr-defined]
        return summary

    def _solve(self, parts: Sequence[M]) -> tuple[NDArray[np.float64], NDArray[Any], None]:
        labels, sums, total = [], [], 0
        within: NDArray[np.float64] = np.zeros_like(parts[0].covariances[0], dtype=np.float64)
        for label, samples, mean, covariance in class_distributions(parts):
            labels.append(label)
            sums.append(samples * mean)
            total += samples
            within = within + (samples - 1) * covariance
        classes = np.array(labels)
        check_two_classes(classes)
        global_mean: NDArray[np.float64] = np.sum(sums, axis=0) / total
        gram = total * np.outer(global_mean, global_mean)
        gram += parts[0].as_matrix(within, len(global_mean))
        add_to_diagonal(gram, self.shrinkage * (total - len(classes)))
        return solve_head(gram, np.array(sums)), classes, None


@dataclass(frozen=True)
class FedCOFOracle(_SharedCovariances[ClassCovariances]):
    """FedCOF on full covariances from every client, pooled by eq. cov_aggregate."""

    name: ClassVar[str] = "fedcof-oracle"
    summary_type: ClassVar[type[Summary]] = ClassCovariances


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
