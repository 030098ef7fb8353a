"""Mean, count and covariance of every class: what CCVR and the oracle send.

The covariance comes in three sizes: the full matrix, its diagonal, and the mean of its diagonal
("spherical", the paper's ablation). Only what a client holds is reduced to a size: clients send
full means, so the spread between these is known in full (eq. cov_aggregate).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import naming
from fedcof.summaries.base import Summary
from fedcof.summaries.class_sums import check_one_row_per_class
from fedcof.summaries.client_rows import ClientRows
from fedcof.summaries.samples import Seed, check_samples


class ClassDistribution(NamedTuple):
    """What is known of one class."""

    label: int | str
    samples: int
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassMoments(Summary):
    """Mean and covariance of every class; a client has one row for each of its classes.

    Parameters
    ----------
    means : ndarray of float, shape (rows, dim)
        The mean feature of every class.
    covariances : ndarray of float, shape (rows, ...)
        The sample covariance of every class, 0 for a class of one sample.
    """

    centred: ClassVar[frozenset[str]] = frozenset({"means"})

    means: NDArray[np.floating[Any]]
    covariances: NDArray[np.floating[Any]]

    @staticmethod
    @abstractmethod
    def spread(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of the outer products of deviations, in this type's size."""

    @staticmethod
    @abstractmethod
    def as_matrix(covariance: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
        """Return a covariance of this type's size as a (dim, dim) matrix."""

    def within_clients(self) -> NDArray[np.float64]:
        """Return the sum of ``(n_kc - 1) Sigma_kc``, in this type's size."""
        total = np.zeros(self.covariances.shape[1:])
        for count, covariance in zip(self.counts, self.covariances, strict=True):
            total += (count - 1) * covariance.astype(np.float64)
        return total

    @property
    def dim(self) -> int:
        """The length of a feature, d."""
        return int(self.means.shape[1])

    @property
    def row_means(self) -> NDArray[np.floating[Any]]:
        """The means themselves."""
        return self.means

    @property
    def within_trace(self) -> float:
        """The trace of the sum of ``(n_kc - 1) Sigma_kc``."""
        return float(np.trace(self.as_matrix(self.within_clients(), self.dim)))

    @cached_property
    def scale(self) -> float:
        """The largest number in a mean, or the largest deviation."""
        return float(max(np.abs(self.means).max(), np.abs(self.covariances).max() ** 0.5))

    def _check(self) -> None:
        super()._check()
        if len(self.client_ids) == 1:
            self._check_rows()

    def _check_rows(self) -> None:
        """Check the rows of a single client."""
        check_one_row_per_class(self.classes)

    @classmethod
    def summarize(
        cls, features: ArrayLike, labels: ArrayLike, *, client_id: str = "", rng: Seed = None
    ) -> Self:
        """Return the moments of a client's samples, in float64; nothing is drawn."""
        with naming(client_id):
            array, coded = check_samples(features, labels)

        def distributions() -> Iterator[ClassDistribution]:
            for label in np.unique(coded):
                members = array[coded == label].astype(np.float64)
                mean = members.mean(axis=0)
                covariance = cls.spread(members - mean) / max(1, len(members) - 1)
                yield ClassDistribution(label.item(), len(members), mean, covariance)

        return cls.of_distributions(distributions(), client_ids=(client_id,))

    @classmethod
    def of_distributions(cls, distributions: Iterable[ClassDistribution], **clients: Any) -> Self:
        """Return what is known of some classes, as the summary of clients."""
        labels, counts, means, covariances = zip(*distributions, strict=True)
        return cls(
            **clients,
            classes=np.array(labels),
            counts=np.array(counts),
            means=np.stack(means),
            covariances=np.stack(covariances),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassCovariances(ClassMoments):
    """Class means and full covariances, shape (rows, dim, dim); merging pools them by class."""

    kind: ClassVar[str] = "class-covariances"
    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "means": ("rows", "dim"),
        "covariances": ("rows", "dim", "dim"),
    }

    def _check(self) -> None:
        super()._check()
        check_one_row_per_class(self.classes)

    @classmethod
    def _merge(cls, parts: Sequence[Self]) -> Self:
        return cls.of_distributions(class_distributions(parts), **cls._clients(parts))

    def _minus(self, own: Self) -> Self:
        counts = self._counts_without(own)
        rows = {label: row for row, label in enumerate(own.classes.tolist())}

        def distributions() -> Iterator[ClassDistribution]:
            for place, label in enumerate(self.classes.tolist()):
                count, left = int(self.counts[place]), int(counts[place])
                mean = self.means[place].astype(np.float64)
                covariance = self.covariances[place].astype(np.float64)
                if label in rows and left:
                    row, taken = rows[label], count - left
                    gap = own.means[row] - mean
                    scatter = (count - 1) * covariance - (taken - 1) * own.covariances[row]
                    scatter -= taken * count / left * np.outer(gap, gap)
                    mean = mean - taken / left * gap
                    covariance = scatter / (left - 1) if left > 1 else np.zeros_like(covariance)
                if left:
                    yield ClassDistribution(label, left, mean, covariance)

        clients = self._clients_without(own.client_ids[0])
        return self.of_distributions(distributions(), **clients)

    @staticmethod
    def spread(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of outer products, shape (dim, dim)."""
        return np.asarray(deviations.T @ deviations)

    @staticmethod
    def as_matrix(covariance: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
        """Return the matrix itself."""
        return covariance


def class_distributions(
    parts: Sequence[ClassCovariances], classes: Container[Any] | None = None
) -> Iterator[ClassDistribution]:
    """Pool the clients' moments class by class, in the order of the classes (eq. cov_aggregate).

    The formula is the paper's, with the means centred before they are squared. One class is in
    memory at a time.

    Parameters
    ----------
    parts : sequence of ClassCovariances
    classes : container of int or str, optional
        Which of the classes; all by default.
    """
    rows: defaultdict[int | str, list[tuple[ClassCovariances, int]]] = defaultdict(list)
    for part in parts:
        for row, label in enumerate(part.classes.tolist()):
            rows[label].append((part, row))
    for label in sorted(rows):
        if classes is not None and label not in classes:
            continue
        counts = np.array([part.counts[row] for part, row in rows[label]])
        means = np.array([part.means[row] for part, row in rows[label]], dtype=np.float64)
        samples = int(counts.sum())
        mean = counts @ means / samples
        scatter = ((means - mean) * counts[:, None]).T @ (means - mean)
        for part, row in rows[label]:
            scatter += (part.counts[row] - 1) * part.covariances[row].astype(np.float64)
        yield ClassDistribution(label, samples, mean, scatter / max(1, samples - 1))


def pooled_moments(
    parts: Sequence[ClassCovariances], classes: NDArray[Any]
) -> ClassCovariances | None:
    """Return the moments of some classes over all clients, who are no longer named.

    None if nobody has one of the classes.
    """
    found = list(class_distributions(parts, frozenset(classes.tolist())))
    return ClassCovariances.of_distributions(found, client_ids=("",)) if found else None


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassVariances(ClientRows, ClassMoments):
    """Class means and the diagonals of their covariances, shape (rows, dim)."""

    kind: ClassVar[str] = "class-variances"
    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "means": ("rows", "dim"),
        "covariances": ("rows", "dim"),
    }

    @staticmethod
    def spread(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of squares, shape (dim,)."""
        return np.asarray((deviations**2).sum(axis=0))

    @staticmethod
    def as_matrix(covariance: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
        """Return the diagonal matrix."""
        return np.diag(covariance)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassSphericalVariances(ClientRows, ClassMoments):
    """Class means and the means of the diagonals of their covariances, shape (rows,)."""

    kind: ClassVar[str] = "class-spherical-variances"
    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "means": ("rows", "dim"),
        "covariances": ("rows",),
    }

    @staticmethod
    def spread(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of mean squares, shape ()."""
        return np.asarray((deviations**2).mean(axis=1).sum())

    @staticmethod
    def as_matrix(covariance: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
        """Return a multiple of the identity."""
        return covariance * np.eye(dim)
