"""FedCOF with one estimate for all classes, in place of a sum of estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcof.choosing import held_out_rows
from fedcof.errors import StreamingError
from fedcof.methods.fedcof import FedCOF, scatter_of, warn_of_few_means
from fedcof.methods.passes import (
    ROBUST,
    ClassScatter,
    Pass,
    PickedRows,
    PickRows,
    Roll,
    RollCall,
    ScatterPass,
    Together,
    same,
)
from fedcof.scatter import ClassStatistics, Scatter


@dataclass(frozen=True)
class FedCOFPooled(FedCOF):
    """FedCOF with the covariance ``sum_c B_c / sum_c (K_c - 1)`` for every class.

    ``B_c`` is the sum of ``n_kc (mu_kc - mu_c)(mu_kc - mu_c)^T`` over the K_c means of class c. If
    all classes have one covariance, this estimate has the least variance: FedCOF's sum of
    ``(N_c - 1) B_c / (K_c - 1)`` weighs a class by its samples, and one of few means adds more
    noise than it tells. Clients send what they send for FedCOF.

    Parameters
    ----------
    shrinkage, scatter, means_per_class, form, priors
        As in `FedCOF`.
    """

    name: ClassVar[str] = "fedcof-pooled"

    def estimate(self, statistics: ClassStatistics) -> Scatter:
        """Return the scatter of the pooled covariance; nothing where every class has one mean."""
        class_means, between_clients = statistics.scatter_of_means()
        weight = _weight(statistics.class_counts, statistics.means_per_class)
        return Scatter(
            statistics.classes,
            class_means,
            statistics.class_counts,
            weight * between_clients,
            statistics,
            np.full(len(statistics.classes), weight),
        )

    def streamed(self) -> Pass[Any]:
        """Return the one pass for the scatter, whose weight is known in the end."""
        if self.robust:
            raise StreamingError(self.name, ROBUST)
        return RollCall(self._picking) if self._chooses else self._together(())

    def _picking(self, roll: Roll) -> Pass[Any]:
        rows = held_out_rows(roll.totals.rows, roll.class_index)
        return self._together([PickRows(roll.wanted(rows))])

    def _together(self, picks: Sequence[PickRows]) -> Pass[Any]:
        return Together([ScatterPass(same), *picks], _weighted_at_last)


def _weighted_at_last(total: ClassScatter, picked: PickedRows | None = None) -> Scatter:
    totals = total.totals
    warn_of_few_means(totals.rows)
    weight = _weight(totals.counts, totals.rows)
    found = scatter_of(np.full(len(totals.classes), weight), total, picked)
    return replace(found, within_scatter=weight * found.within_scatter)


def _weight(class_counts: NDArray[np.int64], means_per_class: NDArray[np.int64]) -> float:
    classes = len(class_counts)
    return float((class_counts.sum() - classes) / max(1, means_per_class.sum() - classes))
