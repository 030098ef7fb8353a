"""Fed3R: federated ridge regression (Fani et al., 2024; eq. sol-ridge)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.choosing import ridge_by_evidence
from fedcof.methods.closed_form import ClosedForm
from fedcof.numerics import add_to_diagonal
from fedcof.scatter import Scatter
from fedcof.settings import Auto, setting
from fedcof.summaries import Gram, Summary, merge


@dataclass(frozen=True)
class Fed3R(ClosedForm[Gram]):
    """Ridge regression on one-hot labels, exact for any partition of the data.

    Parameters
    ----------
    ridge : float or "auto", default 0.01
        lambda; "auto" takes that of the highest evidence, `fedcof.choosing.ridge_by_evidence`.
    form, priors
        As in `ClosedForm`. The form lda takes the scatter within the classes, which is
        ``G - sum_c N_c mu_c mu_c^T``.
    """

    name: ClassVar[str] = "fed3r"
    summary_type: ClassVar[type[Summary]] = Gram

    ridge: float | Auto = setting(
        0.01, "lambda, added to the diagonal of the Gram matrix; auto chooses it.", minimum=0
    )

    @property
    def penalty(self) -> float:
        """The ridge as a number.

        Raises
        ------
        TypeError
            If it is still to be chosen: see `tuned`.
        """
        if isinstance(self.ridge, str):
            raise TypeError("the ridge is chosen by Method.tuned, from what pool gave")
        return self.ridge

    def pool(self, parts: Sequence[Gram]) -> Gram:
        """Return the matrices of all clients."""
        return merge(parts)

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> Gram:
        """Return the matrices of the samples."""
        return Gram.summarize(features, labels)

    def tuned(self, pooled: Gram) -> Self:
        """Return the method with its ridge as a number."""
        if not isinstance(self.ridge, str):
            return self
        return replace(self, ridge=ridge_by_evidence(pooled.gram, pooled.sums, pooled.counts))

    def scatter_of(self, pooled: Gram) -> Scatter:
        """Return the class means, and what they leave of G."""
        sums, counts = pooled.sums.astype(np.float64), pooled.counts
        means = sums / counts[:, None]
        return Scatter(pooled.classes, means, counts, pooled.gram - means.T @ sums)

    def gram(self, pooled: Gram) -> NDArray[np.float64]:
        """Return G of eq. sol-ridge."""
        return add_to_diagonal(np.array(pooled.gram, dtype=np.float64), self.penalty)

    def covariance(self, scatter: Scatter) -> NDArray[np.float64]:
        """Return the pooled covariance; lambda is on the diagonal of the scatter."""
        return scatter.covariance(self.penalty / max(1, scatter.total - len(scatter.classes)))
