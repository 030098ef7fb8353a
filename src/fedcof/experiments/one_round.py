"""The paper's main procedure: every client sends once, in one round."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedcof.evaluation import evaluate
from fedcof.experiments.clients import Clients, Traffic
from fedcof.experiments.experiment import Execution, Procedure
from fedcof.methods import Method

_OF_PROBABILITIES = ("log_loss", "expected_calibration_error")


@dataclass(frozen=True)
class OneRound(Procedure):
    """All clients send in one round, and the server solves."""

    method: Method[Any]

    def columns(self) -> dict[str, Any]:
        """Return the method's name and its hyperparameters."""
        return method_columns(self.method)

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return accuracy and traffic, and what else the experiment shows."""
        method, dealt = self.method.seeded(clients.seed), clients.dealt
        pooled, traffic = clients.pooled(method)
        head = method.fit(pooled)
        measured: dict[str, Any] = {"accuracy": head.score(dealt.test_features, dealt.test_labels)}
        if "train_accuracy" in execution.metrics:
            measured["train_accuracy"] = head.score(dealt.features, dealt.labels)
        if not {"balanced_accuracy", *_OF_PROBABILITIES}.isdisjoint(execution.metrics):
            scores = head.decision_function(dealt.test_features)
            found = evaluate(
                head.classes, scores, dealt.test_labels, probabilistic=head.probabilistic
            )
            measured["balanced_accuracy"] = found.balanced_accuracy
            if found.calibration is not None:
                measured |= {name: getattr(found.calibration, name) for name in _OF_PROBABILITIES}
        if "condition_within" in execution.metrics:
            measured |= clients.source.conditions()
        return measured | traffic_columns(traffic, clients)


_UNSAID = {"form": "regression", "priors": "counts", "temperature": 1.0}
"""Settings that a row does not say at these values: the paper's experiments have no others."""


def method_columns(method: Method[Any]) -> dict[str, Any]:
    """Return a method's name and hyperparameters, as columns of a row."""
    columns = {"method": method.name, **asdict(method)}
    return {name: value for name, value in columns.items() if _UNSAID.get(name) != value}


def one_round(*methods: Method[Any]) -> tuple[OneRound, ...]:
    """Return a procedure for each of some methods."""
    return tuple(OneRound(method) for method in methods)


def traffic_columns(traffic: Traffic, clients: Clients) -> dict[str, Any]:
    """Return what was sent, as measured columns."""
    classes = len(np.unique(clients.dealt.labels))
    return {**traffic._asdict(), "means_received": traffic.num_means / classes}
