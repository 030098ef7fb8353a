"""Clients that lie: the accuracy against their share, with and without what is done about it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcof.data import Dirichlet
from fedcof.experiments.clients import Clients
from fedcof.experiments.experiment import Execution, Experiment, Procedure, SettingGrid
from fedcof.experiments.one_round import method_columns
from fedcof.experiments.paper.common import SQUEEZENET
from fedcof.methods import Fed3R, FedCOF, FedNCM, Method
from fedcof.screening import screen

Features = NDArray[np.floating[Any]]
Lie = Literal["labels", "scale", "shift", "random"]

_LIES: dict[Lie, Callable[[Features, NDArray[Any], np.random.Generator], tuple[Any, Any]]] = {
    "labels": lambda features, labels, rng: (features, _in_another_order(labels, rng)),
    "scale": lambda features, labels, rng: (10 * features, labels),
    "shift": lambda features, labels, rng: (features + _length(features), labels),
    "random": lambda features, labels, rng: (
        rng.normal(features.mean(), features.std(), features.shape),
        labels,
    ),
}
"""The data that a client pretends to have: each of its classes under the name of another, features
10 times as large, moved by their own length along the diagonal, or drawn at random."""


def _in_another_order(labels: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    classes, index = np.unique(labels, return_inverse=True)
    cycle = rng.permutation(len(classes))
    other = np.empty_like(cycle)
    other[cycle] = np.roll(cycle, 1)
    return np.asarray(classes[other[index]])


def _length(features: Features) -> float:
    """Return what is added to every number of a feature to move it by the mean feature's length."""
    return float(np.linalg.norm(features.mean(axis=0)) / np.sqrt(features.shape[1]))


@dataclass(frozen=True)
class Lying(Procedure):
    """One round in which a share of the clients lies.

    Parameters
    ----------
    method : Method
    lie : {"labels", "scale", "shift", "random"}
    share : float
        Of the clients.
    screened : bool, default False
        Whether the server sets aside who is far off; see `fedcof.screening`.
    """

    method: Method[Any]
    lie: Lie
    share: float
    screened: bool = False

    def columns(self) -> dict[str, Any]:
        """Return the method, the lie, what is done about it, and the share of the clients."""
        robust = bool(getattr(self.method, "robust", False))
        done = [name for name, on in {"robust": robust, "screened": self.screened}.items() if on]
        columns = method_columns(self.method)
        columns.pop("robust", None)
        return columns | {
            "lie": self.lie,
            "defence": " and ".join(done) or "none",
            "hostile": self.share,
        }

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return the accuracy, and the shares of the liars and of the others set aside."""
        sent = list(clients.collected(clients.sender(self.method)).summaries)
        rng = np.random.default_rng([clients.seed, len(sent)])
        liars = set(rng.permutation(len(sent))[: round(self.share * len(sent))].tolist())
        for k, (client_id, features, labels) in enumerate(clients.dealt):
            if k in liars:
                pretended = _LIES[self.lie](features, labels, rng)
                sent[k] = self.method.summarize(*pretended, client_id=client_id)
        refused = {k for k, odd in screen(sent) if odd.refused} if self.screened else set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            head = self.method.solve(
                [one for k, one in enumerate(sent) if k not in refused], screened=True
            )
        return {
            "accuracy": head.score(clients.dealt.test_features, clients.dealt.test_labels),
            "liars_refused": len(refused & liars) / max(1, len(liars)),
            "honest_refused": len(refused - liars) / max(1, len(sent) - len(liars)),
        }


_SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
_METHODS = (
    FedNCM(),
    FedNCM(robust=True),
    FedCOF(shrinkage=0.1),
    FedCOF(shrinkage=0.1, robust=True),
    Fed3R(),
)

hostile = Experiment(
    name="hostile",
    title="Accuracy against the share of clients that lie",
    grids=(
        SettingGrid(
            ("cifar100",),
            (SQUEEZENET,),
            (Dirichlet(100, 0.1),),
            tuple(
                Lying(method, lie, share, screened)
                for method, lie, screened, share in product(_METHODS, _LIES, (False, True), _SHARES)
            ),
        ),
    ),
    figure="curves",
    x="hostile",
    lines="defence",
    seeds=1,
    notes=(
        "labels: each class of a client under the name of another; scale: features 10 times as "
        "large; shift: features moved by their own length along the diagonal; random: normal "
        "numbers of the features' mean and deviation. Who lies is drawn from the clients.",
        "robust: geometric medians and trusted counts (fedcof.robust). screened: clients that are "
        "far off are set aside (fedcof.screening).",
    ),
)

EXPERIMENTS = (hostile,)
"""What this module declares."""
