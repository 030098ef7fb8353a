"""STSA-E: a Gram matrix estimated from class sums (Guan et al., 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcof.heads import LinearHead
from fedcof.methods.base import Method
from fedcof.methods.normal_equations import NormalEquations
from fedcof.methods.passes import (
    ClassScatter,
    ClassWeights,
    Pass,
    Roll,
    RollCall,
    ScatterPass,
)
from fedcof.numerics import scatter_about_means
from fedcof.scatter import ClassStatistics
from fedcof.settings import setting
from fedcof.summaries import ClassMeans, Summary


@dataclass(frozen=True)
class STSAE(Method[ClassMeans]):
    """Ridge regression with a Gram matrix that is estimated from the spread of class means.

    Of class c, with S sets of samples in all, sums ``s_i`` of ``n_i`` samples and P_c of all::

        G_c = (N_c - 1)/(S - 1) sum_i s_i s_i^T / n_i - max(0, N_c - S)/((S - 1) N_c) P_c P_c^T

    It is meant for random features: give the transform ``random-features:2048``.

    Parameters
    ----------
    ridge : float, default 0.01
        Added to the diagonal of the Gram matrix.
    means_per_class : int, default 1
        Sets into which a client divides its samples; theirs are 5.

    Notes
    -----
    After "Enhancing Federated Class-Incremental Learning via Spatial-Temporal Statistics
    Aggregation" and its code, with one task in place of a stream. S counts the sets of all clients,
    as in their formula and code, also where few of them hold the class, and what is subtracted is
    not below zero. FedCOF with both scatters has the same matrix where every client holds every
    class. Departures: their 10,000 random features and penalty of 1e6 are for another backbone; a
    set is drawn class by class, as FedCOF draws them, so that no mean is of one sample if it can be
    helped.
    """

    name: ClassVar[str] = "stsa-e"
    summary_type: ClassVar[type[Summary]] = ClassMeans

    ridge: float = setting(0.01, "lambda, added to the diagonal of the Gram matrix.", minimum=0)
    means_per_class: int = setting(
        1, "Means of disjoint random sets that a client sends for a class.", minimum=1, client=True
    )

    @property
    def rows_per_class(self) -> int:
        """As many as there are sets."""
        return self.means_per_class

    def pool(self, parts: Sequence[ClassMeans]) -> NormalEquations:
        """Return the Gram matrix that the means let expect."""
        statistics = ClassStatistics.of(parts)
        sets = self._sets(sum(len(part.client_ids) for part in parts))
        totals, index = statistics.class_counts, statistics.class_index
        means, spread = scatter_about_means(
            statistics.means,
            statistics.counts * ((totals - 1) / (sets - 1))[index],
            index,
            len(totals),
        )
        return _equations(sets, statistics.classes, totals, means, spread)

    def streamed(self) -> Pass[Any]:
        """Return a pass that counts, for S and the weights of the classes; the spread is next."""
        return RollCall(self._weighted)

    def _weighted(self, roll: Roll) -> Pass[Any]:
        sets, totals = self._sets(len(roll.client_ids)), roll.totals
        weights = (totals.counts - 1) / (sets - 1)
        # A class of one sample has no spread, but its mean counts.
        positive = ClassWeights(totals.classes, np.where(weights > 0, weights, 1.0))
        return ScatterPass(partial(_equations_of, sets), positive)

    def _sets(self, clients: int) -> int:
        """Return S."""
        return max(2, clients * self.means_per_class)

    def fit(self, pooled: NormalEquations) -> LinearHead:
        """Return the ridge regression."""
        return pooled.head(self.ridge)


def _equations_of(sets: int, total: ClassScatter) -> NormalEquations:
    totals = total.totals
    return _equations(sets, totals.classes, totals.counts, total.means, total.scatter)


def _equations(
    sets: int,
    classes: NDArray[Any],
    totals: NDArray[np.int64],
    means: NDArray[np.float64],
    spread: NDArray[np.float64],
) -> NormalEquations:
    """Return the estimate from the class means and the weighted spread about them."""
    # sum s s^T / n is the spread of the means about their own and N_c mu_c mu_c^T.
    weights = (totals - 1) / (sets - 1) - np.maximum(0, totals - sets) / (sets - 1)
    gram = spread + (means * (weights * totals)[:, None]).T @ means
    return NormalEquations(classes, gram, totals[:, None] * means)
