"""Fed3R: federated ridge regression (Fani et al., 2024; eq. sol-ridge)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedcof.heads import LinearHead, solve_head
from fedcof.methods.base import Method, check_two_classes
from fedcof.numerics import add_to_diagonal
from fedcof.settings import setting
from fedcof.summaries import Gram, Summary, merge


@dataclass(frozen=True)
class Fed3R(Method[Gram]):
    """Ridge regression on one-hot labels, exact for any partition of the data.

    Parameters
    ----------
    ridge : float, default 0.01
        lambda.
    """

    name: ClassVar[str] = "fed3r"
    summary_type: ClassVar[type[Summary]] = Gram

    ridge: float = setting(0.01, "lambda, added to the diagonal of the Gram matrix.", minimum=0)

    def pool(self, parts: Sequence[Gram]) -> Gram:
        """Return the matrices of all clients."""
        return merge(parts)

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> Gram:
        """Return the matrices of the samples."""
        return Gram.summarize(features, labels)

    def fit(self, pooled: Gram) -> LinearHead:
        """Return the solution of eq. sol-ridge."""
        check_two_classes(pooled.classes)
        gram = add_to_diagonal(np.array(pooled.gram, dtype=np.float64), self.ridge)
        return LinearHead(solve_head(gram, pooled.sums.astype(np.float64)), pooled.classes)
