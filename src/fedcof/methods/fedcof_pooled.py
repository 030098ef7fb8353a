"""FedCOF with one estimate for all classes, in place of a sum of estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcof.methods.fedcof import FedCOF
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
        classes, num_means = len(statistics.classes), len(statistics.counts)
        samples = int(statistics.class_counts.sum())
        weight = (samples - classes) / max(1, num_means - classes)
        return Scatter(
            statistics.classes,
            class_means,
            statistics.class_counts,
            weight * between_clients,
            statistics,
            np.full(classes, weight),
        )
