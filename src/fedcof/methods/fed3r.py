"""Fed3R: federated ridge regression (Fani et al., 2024; eq. sol-ridge)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedcof.heads import LinearHead, solve_head
from fedcof.methods.base import Method, check_at_least, check_two_classes
from fedcof.scatter import add_to_diagonal
from fedcof.summaries import Gram, Summary, merge, summarize_gram


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

    ridge: float = 0.01

    def __post_init__(self) -> None:
        check_at_least(0, ridge=self.ridge)

    def summarize(
        self,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        client_id: str = "",
        rng: np.random.Generator | int | None = None,
    ) -> Gram:
        """Return the Gram matrix of all features and the sum of every class."""
        return summarize_gram(features, labels, client_id=client_id)

    def pool(self, parts: Sequence[Gram]) -> Gram:
        """Return the matrices of all clients."""
        return merge(parts)

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> Gram:
        """Return the matrices of the samples."""
        return summarize_gram(features, labels)

    def fit(self, pooled: Gram) -> LinearHead:
        """Return the solution of eq. sol-ridge."""
        check_two_classes(pooled.classes)
        gram = add_to_diagonal(np.array(pooled.gram, dtype=np.float64), self.ridge)
        return LinearHead(solve_head(gram, pooled.sums.astype(np.float64)), pooled.classes)
