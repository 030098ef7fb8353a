"""FedRAN: ridge regression from truncated Gram matrices (Arockiaraj et al., 2026)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedcof.heads import LinearHead
from fedcof.methods.base import Method
from fedcof.methods.normal_equations import EquationsPass, NormalEquations
from fedcof.methods.passes import Pass
from fedcof.settings import setting
from fedcof.summaries import Summary, merge
from fedcof.summaries.gram_sketch import GramSketch


@dataclass(frozen=True)
class FedRAN(Method[GramSketch]):
    """Ridge regression on the sum of the clients' Gram matrices, each cut to a rank.

    It is meant for random features: give the transform ``random-features:2048``. A client sends
    ``gram_rank`` vectors in place of a matrix of their length squared.

    Parameters
    ----------
    ridge : float, default 0.01
        Added to the diagonal of the Gram matrix.
    gram_rank : int, default 32
        The rank to which a client cuts its Gram matrix.

    Notes
    -----
    After "Accurate and Resource-Efficient Federated Continual Learning", with all labels and one
    task in place of a stream. Its server merges the clients' subspaces by QR and SVD; to what rank
    it cuts them again could not be found out, so none is cut here, which keeps the most and makes
    the merger the sum of the clients' matrices. Their rank, penalty and number of random features
    could not be found out either.
    """

    name: ClassVar[str] = "fedran"
    summary_type: ClassVar[type[Summary]] = GramSketch

    ridge: float = setting(0.01, "lambda, added to the diagonal of the Gram matrix.", minimum=0)
    gram_rank: int = setting(
        32, "The rank to which a client cuts its Gram matrix.", minimum=1, client=True
    )

    def pool(self, parts: Sequence[GramSketch]) -> NormalEquations:
        """Return the sum of the clients' matrices, and of their class sums."""
        merged = merge(parts)
        rows = merged.vectors.reshape(-1, merged.dim).astype(np.float64)
        return NormalEquations(merged.classes, rows.T @ rows, merged.sums.astype(np.float64))

    def streamed(self) -> Pass[Any]:
        """Return the one pass that adds up the clients' matrices."""
        return EquationsPass(self.pool)

    def fit(self, pooled: NormalEquations) -> LinearHead:
        """Return the ridge regression."""
        return pooled.head(self.ridge)
