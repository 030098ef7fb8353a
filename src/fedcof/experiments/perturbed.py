"""The paper's noise on class counts: every client changes its counts, and then all is one round."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcof.experiments.clients import Clients
from fedcof.experiments.experiment import Execution, Procedure
from fedcof.experiments.one_round import method_columns
from fedcof.methods import Method, client_rng
from fedcof.privacy import CountNoise
from fedcof.summaries import Summary

_DRAWS = 5
"""Draws of the noise of which a client's histogram is shown."""


@dataclass(frozen=True)
class NoisyCounts(Procedure):
    """One round of clients that add noise to their counts.

    Parameters
    ----------
    method : Method
        One whose clients send class means.
    noise : CountNoise
    """

    method: Method[Any]
    noise: CountNoise

    def columns(self) -> dict[str, Any]:
        """Return the method's name and hyperparameters, the noise and its epsilon."""
        columns = method_columns(self.method)
        return columns | {"noise": self.noise.noise, "epsilon": self.noise.epsilon}

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return the accuracy, how many means are left, and the counts of a client.

        That client is the first; its counts are in the row by class, before the noise and after
        each of some draws of it.
        """
        sender = clients.sender(self.method.seeded(clients.seed))
        exact = clients.collected(sender).summaries
        sent = [noisy for one in exact if (noisy := self._with_noise(one, clients.seed))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd sites: the noise makes them odd
            head = sender.method.solve(sent, screened=True)
        return {
            "accuracy": head.score(clients.dealt.test_features, clients.dealt.test_labels),
            "num_means": sum(one.rows_sent for one in sent),
            "class_counts": self._histogram(exact[0], clients.source.data.train.classes),
        }

    def _with_noise(self, summary: Summary, seed: int) -> Summary | None:
        return self.noise(summary, client_rng(seed, summary.client_ids[0]))

    def _histogram(self, summary: Summary, names: Sequence[str]) -> dict[str, list[int]]:
        """Return by the name of a class its count, and the count after every draw of the noise."""
        rng = np.random.default_rng(0)
        drawn = [self.noise(summary, rng) for _ in range(_DRAWS)]
        after = [noisy.counts_by_class if noisy else {} for noisy in drawn]
        return {
            names[int(label)]: [count, *(counts.get(label, 0) for counts in after)]
            for label, count in summary.counts_by_class.items()
        }
