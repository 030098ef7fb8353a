"""The Gram matrix of all features and the sum of every class: what Fed3R sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import SummaryError, naming
from fedcof.numerics import GroupSums, blocks, sum_by_group
from fedcof.summaries.base import Summary
from fedcof.summaries.samples import Seed, check_samples


@dataclass(frozen=True, eq=False, kw_only=True)
class Gram(Summary):
    """The matrices G = F F^T and B = F Y of ridge regression (eq. sol-ridge).

    Parameters
    ----------
    sums : ndarray of float, shape (rows, dim)
        The sum of the features of every class; a class has one row.
    gram : ndarray of float, shape (dim, dim)
        The sum of the outer products of all features.
    """

    kind: ClassVar[str] = "gram"
    axes: ClassVar[dict[str, tuple[str, ...]]] = {"sums": ("rows", "dim"), "gram": ("dim", "dim")}

    sums: NDArray[np.floating[Any]]
    gram: NDArray[np.floating[Any]]

    @classmethod
    def summarize(
        cls, features: ArrayLike, labels: ArrayLike, *, client_id: str = "", rng: Seed = None
    ) -> Self:
        """Return a client's G and B, in float64; nothing is drawn (section 3, Fed3R)."""
        with naming(client_id):
            array, coded = check_samples(features, labels)
        classes, class_index = np.unique(coded, return_inverse=True)
        by_class = GroupSums.of([array], class_index, len(classes))
        gram = np.zeros((array.shape[1], array.shape[1]))
        for _, block in blocks([array], np.float64, at_least=2 * array.shape[1]):
            gram += block.T @ block
        return cls(
            client_ids=(client_id,),
            classes=classes,
            counts=by_class.rows,
            sums=by_class.sums,
            gram=gram,
        )

    @property
    def dim(self) -> int:
        """The length of a feature, d."""
        return int(self.gram.shape[0])

    @cached_property
    def row_means(self) -> NDArray[np.floating[Any]]:
        """The sums over the counts."""
        return np.asarray(self.sums / self.counts[:, None])

    @property
    def within_trace(self) -> float:
        """What the class means leave of the trace of the Gram matrix."""
        about_zero = float(np.trace(self.gram, dtype=np.float64))
        return about_zero - float(np.einsum("cd,cd->", self.row_means, self.sums))

    @cached_property
    def scale(self) -> float:
        """The largest number in a class mean, or the largest root mean square of a feature."""
        return float(
            max(np.abs(self.row_means).max(), (np.abs(self.gram).max() / self.total) ** 0.5)
        )

    def _check(self) -> None:
        super()._check()
        check_one_row_per_class(self.classes)

    @classmethod
    def _merge(cls, parts: Sequence[Self]) -> Self:
        labels = np.concatenate([part.classes for part in parts])
        classes, class_index = np.unique(labels, return_inverse=True)
        counts = np.zeros(len(classes), dtype=np.int64)
        np.add.at(counts, class_index, np.concatenate([part.counts for part in parts]))
        gram = np.zeros_like(parts[0].gram, dtype=np.float64)
        for part in parts:
            gram += part.gram
        return cls(
            **cls._clients(parts),
            classes=classes,
            counts=counts,
            sums=sum_by_group([p.sums for p in parts], class_index, len(classes)),
            gram=gram,
        )

    def _minus(self, own: Self) -> Self:
        counts = self._counts_without(own)
        sums = self.sums.astype(np.float64)
        place = {label: row for row, label in enumerate(self.classes.tolist())}
        sums[[place[label] for label in own.classes.tolist()]] -= own.sums
        left = counts > 0
        return type(self)(
            **self._clients_without(own.client_ids[0]),
            classes=self.classes[left],
            counts=counts[left],
            sums=sums[left],
            gram=self.gram.astype(np.float64) - own.gram,
        )


def check_one_row_per_class(classes: NDArray[Any]) -> None:
    """Check that no class has two rows.

    Raises
    ------
    SummaryError
        With the first class that has.
    """
    labels, counts = np.unique(classes, return_counts=True)
    if counts.max() > 1:
        raise SummaryError("classes", f"class {labels[counts.argmax()].item()!r} appears twice")
