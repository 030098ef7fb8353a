"""The normal equations of ridge regression on one-hot labels, and their plain solution."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcof.heads import LinearHead, least_squares
from fedcof.methods.base import check_two_classes
from fedcof.numerics import add_to_diagonal


class NormalEquations(NamedTuple):
    """G and B of a regression, as they are pooled or estimated.

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

    def head(self, ridge: float = 0.0) -> LinearHead:
        """Return the head ``W = (G + ridge I)^-1 B``, whose rows keep their lengths."""
        check_two_classes(self.classes)
        gram = add_to_diagonal(self.gram.copy(), ridge) if ridge else self.gram
        return LinearHead(least_squares(gram, self.sums), self.classes)
