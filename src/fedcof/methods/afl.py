"""AFL: analytic federated learning (He et al., 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedcof.heads import LinearHead
from fedcof.methods.base import Method
from fedcof.methods.normal_equations import EquationsPass, NormalEquations
from fedcof.methods.passes import Pass
from fedcof.settings import setting
from fedcof.summaries import Gram, Summary
from fedcof.summaries.class_sums import sums_of_parts
from fedcof.summaries.local_ridge import LocalRidge


@dataclass(frozen=True)
class AFL(Method[LocalRidge]):
    """The least squares of all samples, from the clients' own ridge regressions.

    A client sends ``C_k = F_k F_k^T + lambda I`` and its weights ``W_k = C_k^-1 B_k``. By the law
    of absolute aggregation ``C W = sum_k C_k W_k`` for the weights of all, and what the K penalties
    add to C is taken off in the end.

    Parameters
    ----------
    client_ridge : float, default 1.0
        lambda of a client. It makes a client's system invertible and cancels in the head.

    Notes
    -----
    After "AFL: A Single-Round Analytic Approach for Federated Learning with Pre-trained Models" and
    its code. The head is that of least squares without a penalty, and its rows keep their lengths:
    it differs from Fed3R's in both. Departures: the server solves once for all clients, where
    theirs merges them one by one, which is the same but for rounding; a client sends no weights of
    classes that it does not hold, which are zero.
    """

    name: ClassVar[str] = "afl"
    summary_type: ClassVar[type[Summary]] = LocalRidge

    client_ridge: float = setting(
        1.0, "lambda of a client's own ridge regression.", above=0, client=True
    )

    def pool(self, parts: Sequence[LocalRidge]) -> NormalEquations:
        """Return the system of all clients, without their penalties."""
        pooled = sums_of_parts(parts, [part.sums for part in parts])
        gram = np.zeros((parts[0].dim, parts[0].dim))
        for part in parts:
            gram += part.gram()
        return NormalEquations(pooled["classes"], gram, pooled["sums"])

    def streamed(self) -> Pass[Any]:
        """Return the one pass that adds up the clients' systems."""
        return EquationsPass(self.pool)

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> NormalEquations:
        """Return the system of the samples."""
        own = Gram.summarize(features, labels)
        return NormalEquations(own.classes, np.asarray(own.gram), np.asarray(own.sums))

    def fit(self, pooled: NormalEquations) -> LinearHead:
        """Return the least-squares solution."""
        return pooled.head()
