"""The Gram matrix of all features and the sum of every class: what Fed3R sends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.numerics import outer_products
from fedcof.summaries.class_sums import ClassSums, sums_of_samples
from fedcof.summaries.samples import Seed


@dataclass(frozen=True, eq=False, kw_only=True)
class Gram(ClassSums):
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

    gram: NDArray[np.floating[Any]]

    @classmethod
    def summarize(
        cls, features: ArrayLike, labels: ArrayLike, *, client_id: str = "", rng: Seed = None
    ) -> Self:
        """Return a client's G and B, in float64; nothing is drawn (section 3, Fed3R)."""
        array, fields = sums_of_samples(features, labels, client_id)
        return cls(**fields, gram=outer_products([array], np.float64))

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
