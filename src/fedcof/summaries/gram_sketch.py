"""The leading part of a client's Gram matrix: what FedRAN sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.numerics import scaled_eigenvectors
from fedcof.summaries.base import Summary
from fedcof.summaries.class_sums import check_one_row_per_class, sums_of_parts, sums_of_samples
from fedcof.summaries.samples import Seed


@dataclass(frozen=True, eq=False, kw_only=True)
class GramSketch(Summary):
    """The sum of every class, and rows V so that ``V^T V`` is the Gram matrix cut to a rank.

    Parameters
    ----------
    sums : ndarray of float, shape (rows, dim)
        The sum of the features of every class; a class has one row.
    vectors : ndarray of float, shape (clients, gram_rank, dim)
        Of every client the leading right singular vectors of its features, times their singular
        values; zeros where there are fewer.
    """

    kind: ClassVar[str] = "gram-sketch"
    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "sums": ("rows", "dim"),
        "vectors": ("clients", "gram_rank", "dim"),
    }

    sums: NDArray[np.floating[Any]]
    vectors: NDArray[np.floating[Any]]

    @classmethod
    def summarize(
        cls,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        client_id: str = "",
        rng: Seed = None,
        gram_rank: int = 32,
    ) -> Self:
        """Return a client's sums and vectors, in float64; nothing is drawn."""
        array, fields = sums_of_samples(features, labels, client_id)
        leading, _ = scaled_eigenvectors(array.astype(np.float64), gram_rank)
        vectors = np.zeros((1, gram_rank, array.shape[1]))
        vectors[0, : len(leading)] = leading
        return cls(
            **fields,
            vectors=vectors,
        )

    @property
    def dim(self) -> int:
        """The length of a feature, d."""
        return int(self.sums.shape[1])

    @cached_property
    def row_means(self) -> NDArray[np.floating[Any]]:
        """The sums over the counts."""
        return np.asarray(self.sums / self.counts[:, None])

    @cached_property
    def scale(self) -> float:
        """The largest number in a class mean."""
        return float(np.abs(self.row_means).max())

    def _check(self) -> None:
        super()._check()
        check_one_row_per_class(self.classes)

    @classmethod
    def _merge(cls, parts: Sequence[Self]) -> Self:
        vectors = sorted(
            (pair for part in parts for pair in zip(part.client_ids, part.vectors, strict=True)),
            key=itemgetter(0),
        )
        return cls(
            **cls._clients(parts),
            **sums_of_parts(parts, [part.sums for part in parts]),
            vectors=np.stack([rows for _, rows in vectors]),
        )
