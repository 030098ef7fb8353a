"""A factor of a client's Gram matrix, packed: no way to send the matrix exactly is shorter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from fedcof.errors import SummaryError
from fedcof.summaries.class_sums import check_one_row_per_class, sums_of_parts, sums_of_samples
from fedcof.summaries.client_rows import ClientRows
from fedcof.summaries.gram import Gram
from fedcof.summaries.samples import Seed


@dataclass(frozen=True, eq=False, kw_only=True)
class GramFactor(ClientRows):
    """The sum of every class, and R of ``F = Q R``, so that the Gram matrix is ``R^T R``.

    The features F of n samples have an R of shape (r, dim) with ``r = min(n, dim)``, and zeros
    below its diagonal, which are not sent: ``r dim - r (r - 1) / 2`` numbers are left. From n = dim
    on that is the packed triangle of the Gram matrix; a client of fewer samples sends less.

    Parameters
    ----------
    sums : ndarray of float, shape (rows, dim)
        The sum of the features of every class at a client.
    factors : ndarray of float, shape (numbers,)
        R row by row, each from the diagonal on; one client after the other.
    """

    kind: ClassVar[str] = "gram-factor"
    axes: ClassVar[dict[str, tuple[str, ...]]] = {"sums": ("rows", "dim"), "factors": ("numbers",)}

    sums: NDArray[np.floating[Any]]
    factors: NDArray[np.floating[Any]]

    @classmethod
    def summarize(
        cls, features: ArrayLike, labels: ArrayLike, *, client_id: str = "", rng: Seed = None
    ) -> Self:
        """Return a client's sums and factor, in float64; nothing is drawn."""
        array, fields = sums_of_samples(features, labels, client_id)
        (factor,) = linalg.qr(array.astype(np.float64), mode="r", check_finite=False)
        factor = factor[: min(array.shape)]
        return cls(
            **fields,
            factors=factor[_upper(factor)],
        )

    @classmethod
    def expected_lengths(
        cls, dim: int, client_settings: Mapping[str, Any], samples: int | None = None
    ) -> dict[str, int]:
        """Return the lengths; how many numbers a factor has depends on the samples."""
        lengths = super().expected_lengths(dim, client_settings)
        return lengths if samples is None else {**lengths, "numbers": _numbers(samples, dim)}

    @property
    def axis_lengths(self) -> dict[str, int]:
        """The length of a feature alone: the factors of two clients may differ in theirs."""
        return {"dim": self.dim}

    @property
    def dim(self) -> int:
        """The length of a feature, d."""
        return int(self.sums.shape[1])

    @cached_property
    def row_means(self) -> NDArray[np.floating[Any]]:
        """The sums over the counts."""
        return np.asarray(self.sums / self.counts[:, None])

    @property
    def within_trace(self) -> float:
        """What the class means leave of the trace of the Gram matrix."""
        about_zero = float(np.square(self.factors, dtype=np.float64).sum())
        return about_zero - float(np.einsum("cd,cd->", self.row_means, self.sums))

    @cached_property
    def scale(self) -> float:
        """The largest number in a class mean, or the largest root mean square of a feature."""
        squares = sum(np.square(triangle).sum(axis=0) for _, triangle in self.triangles())
        return float(max(np.abs(self.row_means).max(), (np.max(squares) / self.total) ** 0.5))

    def triangles(self) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """Yield R of every client with its id, shape (r, dim)."""
        for client_id, numbers in self._factors():
            triangle = np.zeros((_rank(len(numbers), self.dim), self.dim))
            triangle[_upper(triangle)] = numbers
            yield client_id, triangle

    def gram(self) -> Gram:
        """Return the statistic of all clients as Fed3R's."""
        gram = np.zeros((self.dim, self.dim))
        for _, triangle in self.triangles():
            gram += triangle.T @ triangle
        return Gram(
            client_ids=self.client_ids,
            rows_per_client=self.rows_per_client,
            **sums_of_parts([self], [self.sums]),
            gram=gram,
        )

    def grams(self) -> Iterator[Gram]:
        """Yield the statistic of every client as Fed3R's."""
        for (client_id, triangle), (_, rows) in zip(
            self.triangles(), self.rows_by_client(), strict=True
        ):
            yield Gram(
                client_ids=(client_id,),
                classes=self.classes[rows],
                counts=self.counts[rows],
                sums=self.sums[rows],
                gram=triangle.T @ triangle,
            )

    def _others_apart(self) -> Iterable[dict[str, Any]]:
        return [{"factors": numbers} for _, numbers in self._factors()]

    def _factors(self) -> Iterator[tuple[str, NDArray[np.floating[Any]]]]:
        """Yield the numbers of every client's factor with its id."""
        start = 0
        for client_id, rows in self.rows_by_client():
            stop = start + _numbers(int(self.counts[rows].sum()), self.dim)
            yield client_id, self.factors[start:stop]
            start = stop

    def _check(self) -> None:
        super()._check()
        if len(self.client_ids) == 1:
            check_one_row_per_class(self.classes)
        samples = [int(self.counts[rows].sum()) for _, rows in self.rows_by_client()]
        expected = sum(_numbers(each, self.dim) for each in samples)
        if len(self.factors) != expected:
            raise SummaryError(
                "shape",
                f"{len(self.factors)} numbers of factors, expected {expected} for {samples} "
                f"samples of length {self.dim}",
            )

    def _numbers_sent(self) -> int:
        return self.sums.size + self.factors.size  # merging joins none

    def _without(self, client_id: str) -> Self:
        others = [numbers for name, numbers in self._factors() if name != client_id]
        return type(self)(**self._rows_without(client_id), factors=np.concatenate(others))

    @classmethod
    def _merge(cls, parts: Sequence[Self]) -> Self:
        factors = sorted((each for part in parts for each in part._factors()), key=itemgetter(0))
        return cls(
            **cls._merged_rows(parts),
            factors=np.concatenate([numbers for _, numbers in factors]),
        )


def _numbers(samples: int, dim: int) -> int:
    """Return how many numbers the factor of some samples has."""
    rank = min(samples, dim)
    return rank * dim - rank * (rank - 1) // 2


def _rank(numbers: int, dim: int) -> int:
    """Return the rows of a factor of so many numbers."""
    return next(rank for rank in range(1, dim + 1) if _numbers(rank, dim) == numbers)


def _upper(triangle: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where the numbers of a factor stand, row by row."""
    return np.triu_indices(len(triangle), m=triangle.shape[1])
