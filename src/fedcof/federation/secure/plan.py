"""What all must know of a secure run before it begins."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedcof.client import Sender
from fedcof.errors import SettingError
from fedcof.federation.plan import Plan
from fedcof.federation.secure.statistic import Budget
from fedcof.privacy.differential import Neighbours, check_noised
from fedcof.privacy.secure.terms import Terms
from fedcof.settings import check_settings, setting
from fedcof.transforms import Chain, Clip

SAMPLES = 1 << 17
"""The most samples of one client, where `max-samples` does not say it."""

LEAST = 3
"""Fewer clients than this are never summed: two know each other's numbers from the sum."""


@dataclass(frozen=True)
class SecurePlan:
    """The settings of secure rounds."""

    secure: bool = setting(
        False, "Whether the server is told sums over the clients alone, under masks."
    )
    radius: float = setting(
        1000.0, "Length of the longest feature; a client with a longer one is refused.", above=0
    )
    colluders: float = setting(
        Terms.colluders,
        "Share of the clients that may be in league with the server and still learn no more.",
        minimum=0,
        maximum=0.9,
    )
    dropouts: float = setting(
        Terms.dropouts,
        "Share of the clients that may drop out in the middle of a sum without ending it.",
        minimum=0,
        maximum=0.9,
    )

    epsilon: float = setting(
        0.0,
        "Differential privacy of the sum over the clients; 0: none.",
        minimum=0,
        maximum=100,
    )
    delta: float = setting(1e-5, "The delta of that privacy.", above=0, maximum=0.1)
    neighbours: Neighbours = setting(
        "sample", "Whose presence it hides: one sample's, or a whole client's."
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def check_noised(self, sender: Sender, max_samples: int) -> None:
        """Check that what clients sum can have the noise that is asked for.

        Raises
        ------
        SettingError
            If a feature may be longer than the radius, a step has no place beside noise, or by
            client nothing is said of how many samples it may weigh.
        """
        transform = sender.transform
        last = transform.steps[-1:] if isinstance(transform, Chain) else (transform,)
        if last != (Clip(self.radius),):
            raise SettingError(
                "transform",
                f"must end with clip:{self.radius:g} where epsilon is given, so that no sample is "
                f"longer than radius; it is {str(transform)!r}",
            )
        check_noised(sender.steps, self.neighbours)
        for step in sender.steps:
            if not step.chooses_samples:
                raise SettingError(
                    "steps", f"{step.name} is for what a client sends alone; epsilon noises the sum"
                )
        if self.neighbours == "client" and not max_samples:
            raise SettingError(
                "max-samples",
                "must be given where neighbours is client: the noise is in proportion to it, and a "
                "client with more samples weighs as one with so many",
            )

    def terms(self, plan: Plan, clients: int = 0) -> Terms:
        """Return what a sum assumes of its clients.

        Where there is noise, those whose shares are counted on must be there, beside the colluders.
        """
        needed = self.honest(clients) + self._colluding(clients) if self.epsilon else 0
        return Terms(self.colluders, self.dropouts, least=max(LEAST, plan.min_clients, needed))

    def honest(self, clients: int) -> int:
        """Return how many of the clients that are called are counted on for their noise."""
        staying = clients - math.floor(self.dropouts * clients)
        return max(1, staying - self._colluding(clients))

    def _colluding(self, clients: int) -> int:
        return math.ceil(self.colluders * clients)

    def budget(self, clients: int) -> Budget | None:
        """Return what a sum over so many clients is noised for; None where it is not."""
        if not self.epsilon:
            return None
        return Budget(self.epsilon, self.delta, self.honest(clients), self.neighbours)
