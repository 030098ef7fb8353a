"""Accuracy against privacy loss: noise on the sum over clients, and noise of every client."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product, starmap
from typing import Any, Literal

import numpy as np

from fedcof.experiments.clients import Clients
from fedcof.experiments.experiment import Execution, Experiment, Procedure, SettingGrid
from fedcof.experiments.one_round import method_columns, one_round
from fedcof.experiments.paper.common import PAPERS_CLIENTS, SQUEEZENET
from fedcof.methods import Fed3R, FedCOF, FedCOFLinearSketch, FedNCM, Method
from fedcof.privacy.differential import CentralPrivacy, SimulatedNoise, private_sums
from fedcof.privacy.sums import Arrays
from fedcof.summaries.base import TRANSFORM
from fedcof.transforms import Transform

Place = Literal["central", "local"]

_DELTA = 1e-5
_TRANSFORM = "auto+standardize"
"""Features then have length sqrt(d), all of them: nothing is cut, and the radius is no choice."""


@dataclass(frozen=True)
class Private(Procedure):
    """One round with differential privacy by sample.

    Parameters
    ----------
    method : Method
    privacy : {"central", "local"}
        Whether the sum over clients has the noise, or what every client sends.
    privacy_loss : float
        Epsilon, at delta 1e-5.
    """

    method: Method[Any]
    privacy: Place
    privacy_loss: float

    def columns(self) -> dict[str, Any]:
        """Return the method, where the noise is, and epsilon."""
        return method_columns(self.method) | {
            "privacy": self.privacy,
            "privacy_loss": self.privacy_loss,
        }

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return the accuracy, and the deviation of the noise on a class mean, by coordinates."""
        source, dealt = clients.source, clients.dealt
        dim = dealt.features.shape[1]
        radius = math.sqrt(dim)
        transform = clients.sender(FedNCM(), transform=f"{_TRANSFORM}+clip:{radius}").transform
        answering = sum(len(rows) > 0 for _, rows in dealt.partition)
        privacy = CentralPrivacy(
            private_sums(self.method, np.unique(dealt.labels), dim),
            epsilon=self.privacy_loss,
            delta=_DELTA,
            radius=radius,
            samples=len(dealt.labels),
            clients=max(2, answering),
            noise=SimulatedNoise([clients.seed, round(1000 * self.privacy_loss)]),
        )
        shares = 1 if self.privacy == "central" else answering
        total = privacy.layout.encode(self._exact(privacy, clients, transform))
        for _ in range(shares):
            total = total + privacy.share_of_noise()
        head = privacy.head(total, answered=shares, origin={TRANSFORM: str(transform)})
        test = source.features(transform, "test")
        deviation = math.sqrt(privacy.releases["sums"].variance(shares) * dim)
        return {
            "accuracy": head.of_transformed.score(test, dealt.test_labels),
            "classes_kept": len(head.classes),
            "noise_on_a_mean": deviation / (len(dealt.labels) / len(np.unique(dealt.labels))),
        }

    def _exact(self, privacy: CentralPrivacy, clients: Clients, transform: Transform) -> Arrays:
        """Return the sum over all clients, which is the same however samples are dealt."""
        settings = tuple(sorted(self.method.client_settings.items()))
        name = ("exact sums", type(privacy.sums), str(transform), settings)
        made = clients.source.made
        if name not in made:
            train = clients.source.features(transform, "train")
            made[name] = privacy.limited(train, clients.dealt.labels)
        arrays: Arrays = made[name]
        return arrays


_METHODS: tuple[Method[Any], ...] = (
    FedNCM(),
    Fed3R("auto"),
    FedCOF("auto"),
    FedCOFLinearSketch(),
)
_PLACES: tuple[Place, ...] = ("central", "local")
_LOSSES = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 10.0)

private = Experiment(
    name="private",
    title="Accuracy against privacy loss",
    grids=(
        SettingGrid(
            ("cifar100",),
            (SQUEEZENET,),
            (PAPERS_CLIENTS,),
            (
                *one_round(*_METHODS),
                *starmap(Private, product(_METHODS, _PLACES, _LOSSES)),
            ),
        ),
    ),
    figure="curves",
    x="privacy_loss",
    lines="privacy",
    notes=(
        "(ε, δ)-differential privacy by sample, δ 1e-5. Central: noise once on the sum over all "
        "clients, as under secure aggregation. Local: every client's own noise on what it sends.",
        "Features are transformed as the backbone declares and standardised sample by sample, so "
        "that each has length √d, without any clipping. Without privacy: the open head of the "
        "method on the features as they are.",
        "FedCOF's head is made of the Gram matrix: what its clients send otherwise is more "
        "sensitive to one sample (docs/privacy.md).",
        "The noise is drawn from the seed, so that the numbers can be had again.",
    ),
)

EXPERIMENTS = (private,)
"""What this module declares."""
