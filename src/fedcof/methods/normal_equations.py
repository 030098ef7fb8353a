"""The normal equations of ridge regression on one-hot labels, and their plain solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.heads import LinearHead, least_squares
from fedcof.methods.base import check_two_classes
from fedcof.methods.passes import Pass, aligned
from fedcof.numerics import add_to_diagonal


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """G and B of a regression, as they are pooled or estimated; adds up where both are sums.

    Parameters
    ----------
    classes : ndarray, shape (classes,)
        The labels in ascending order.
    gram : ndarray of float64, shape (dim, dim)
        G, without a penalty.
    sums : ndarray of float64, shape (classes, dim)
        B, the sum of the features of every class.
    """

    classes: NDArray[Any]
    gram: NDArray[np.float64]
    sums: NDArray[np.float64]

    def __add__(self, other: NormalEquations) -> NormalEquations:
        classes, (here, there) = aligned(self.classes, other.classes)
        sums = np.zeros((len(classes), len(self.gram)))
        sums[here] += self.sums
        sums[there] += other.sums
        return NormalEquations(classes, self.gram + other.gram, sums)

    def head(self, ridge: float = 0.0) -> LinearHead:
        """Return the head ``W = (G + ridge I)^-1 B``, whose rows keep their lengths."""
        check_two_classes(self.classes)
        gram = add_to_diagonal(self.gram.copy(), ridge) if ridge else self.gram
        return LinearHead(least_squares(gram, self.sums), self.classes)


@dataclass(frozen=True, eq=False)
class EquationsPass(Pass[NormalEquations]):
    """The one pass of a method whose equations are the sum of the clients'.

    Parameters
    ----------
    pool : callable
        Returns the equations of some summaries.
    """

    pool: Callable[[Sequence[Any]], NormalEquations]

    def partial(self, parts: Sequence[Any]) -> NormalEquations:
        """Return the equations of these summaries."""
        return self.pool(parts)

    def add(self, first: NormalEquations, second: NormalEquations) -> NormalEquations:
        """Add them."""
        return first + second

    def finish(self, total: NormalEquations) -> NormalEquations:
        """Return the equations of all."""
        return total
