"""FedCOF where clients differ, beside what the bias of its estimate predicts (appendix F)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedcof.experiments.clients import Clients
from fedcof.experiments.experiment import Execution
from fedcof.experiments.one_round import OneRound
from fedcof.methods import FedCOF, FedCOFOracle
from fedcof.scatter import Scatter, within_scatter_bias
from fedcof.summaries import ClassCovariances, ClassMeans, ordered


@dataclass(frozen=True)
class UnderShift(OneRound):
    """FedCOF in one round, and what its bias alone would cost.

    Every client's samples are taken for its population. The loss is that from the head of the true
    covariances to the head of the expected estimate, which has the bias and no variance.
    """

    method: FedCOF

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return what one round measures, the bias and the loss that it predicts."""
        method, oracle = self.method, FedCOFOracle()
        bias = within_scatter_bias(
            ordered(clients.collected(clients.sender(method)).summaries, ClassMeans),
            ordered(clients.collected(clients.sender(oracle)).summaries, ClassCovariances),
        )
        true: Scatter = clients.pooled(clients.sender(oracle)).content
        expected = replace(true, within_scatter=true.within_scatter + bias)
        unbiased, biased = (
            method.fit(scatter).score(clients.dealt.test_features, clients.dealt.test_labels)
            for scatter in (true, expected)
        )
        return super().measure(clients, execution) | {
            "bias_ratio": float(np.trace(bias) / np.trace(true.within_scatter)),
            "predicted_loss": unbiased - biased,
        }
