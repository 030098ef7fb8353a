"""The paper's main procedure: every client sends once, in one round."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedcof.codings import AUTO
from fedcof.evaluation import evaluate
from fedcof.experiments.clients import Clients, Traffic
from fedcof.experiments.experiment import Execution, Procedure
from fedcof.methods import Method
from fedcof.settings import settings_of

_OF_PROBABILITIES = ("log_loss", "expected_calibration_error")


@dataclass(frozen=True)
class OneRound(Procedure):
    """All clients send in one round, and the server solves.

    Parameters
    ----------
    method : Method
    transform : str, default "none"
        What the clients do to a feature, as `Clients.sender` takes it.
    coding : str, default "auto"
        How their numbers travel.
    """

    method: Method[Any]
    transform: str = "none"
    coding: str = AUTO

    def columns(self) -> dict[str, Any]:
        """Return the method's name and its hyperparameters, transform and coding if there are."""
        columns = method_columns(self.method)
        if self.transform != "none":
            columns["transform"] = self.transform
        if self.coding != AUTO:
            columns["coding"] = self.coding
        return columns

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return accuracy and traffic, and what else the experiment shows."""
        method, dealt = self.method.seeded(clients.seed), clients.dealt
        sender = clients.sender(method, transform=self.transform, coding=self.coding)
        pooled = clients.pooled(sender)
        head, seconds = clients.solved(sender, pooled)
        test_features = clients.source.features(sender.transform, "test")
        measured: dict[str, Any] = {"accuracy": head.score(test_features, dealt.test_labels)}
        if head.provenance is not None:
            numbers = head.provenance.hyperparameters
            measured |= {f"chosen_{name}": numbers[name] for name in head.provenance.automatic}
        if "train_accuracy" in execution.metrics:
            train_features = clients.source.features(sender.transform, "train")
            measured["train_accuracy"] = head.score(train_features, dealt.labels)
        if not {"balanced_accuracy", *_OF_PROBABILITIES}.isdisjoint(execution.metrics):
            scores = head.decision_function(test_features)
            found = evaluate(
                head.classes, scores, dealt.test_labels, probabilistic=head.probabilistic
            )
            measured["balanced_accuracy"] = found.balanced_accuracy
            if found.calibration is not None:
                measured |= {name: getattr(found.calibration, name) for name in _OF_PROBABILITIES}
        if "condition_within" in execution.metrics:
            measured |= clients.source.conditions()
        if "server_seconds" in execution.metrics:
            measured |= {
                "client_seconds": pooled.client_seconds,
                "server_seconds": pooled.server_seconds + seconds,
            }
        if "multiple" in execution.metrics:
            measured["multiple"] = pooled.traffic.wire_bytes / clients.fedcof_bytes
        return measured | traffic_columns(pooled.traffic, clients)


_ALWAYS_SAID = frozenset(
    {
        "budget",
        "max_iter",
        "means_per_class",
        "ridge",
        "samples_per_class",
        "scatter",
        "seed",
        "shrinkage",
    }
)
"""A row says other settings where they are not at their default: so a setting that a method gains
leaves the rows that it has."""


def method_columns(method: Method[Any]) -> dict[str, Any]:
    """Return a method's name and hyperparameters, as columns of a row."""
    defaults = {name: declared.default for name, declared in settings_of(type(method)).items()}
    return {"method": method.name} | {
        name: value
        for name, value in asdict(method).items()
        if name in _ALWAYS_SAID or value != defaults[name]
    }


def one_round(
    *methods: Method[Any], transform: str = "none", coding: str = AUTO
) -> tuple[OneRound, ...]:
    """Return a procedure for each of some methods."""
    return tuple(OneRound(method, transform, coding) for method in methods)


def traffic_columns(traffic: Traffic, clients: Clients) -> dict[str, Any]:
    """Return what was sent, as measured columns."""
    classes = len(np.unique(clients.dealt.labels))
    return {
        **traffic._asdict(),
        "means_received": traffic.num_means / classes,
    }
