"""CCVR as an initialisation: a classifier on virtual features (Luo et al., 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from sklearn.linear_model import LogisticRegression

from fedcof.methods.base import Method, check_two_classes
from fedcof.summaries import ClassCovariances, ClassDistribution, Summary, class_distributions


@dataclass(frozen=True)
class CCVR(Method[ClassCovariances]):
    """Logistic regression on features drawn from the Gaussian of every class.

    The clients' means and covariances are pooled by eq. cov_aggregate.

    Parameters
    ----------
    samples_per_class : int, default 100
        How many virtual features are drawn for a class.
    max_iter : int, default 100
        Iterations of L-BFGS; like the epochs of the paper's linear classifier they need not converge.
    seed : int, default 0
        Seeds the draws.
    """

    name: ClassVar[str] = "ccvr"
    summary_type: ClassVar[type[Summary]] = ClassCovariances

    samples_per_class: int = 100
    max_iter: int = 100
    seed: int = 0

    def summarize(
        self,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        client_id: str = "",
        rng: np.random.Generator | int | None = None,
    ) -> ClassCovariances:
        """Return mean, count and covariance of every class."""
        return ClassCovariances.summarize(features, labels, client_id=client_id)
