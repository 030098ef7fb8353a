"""What all must know of a secure run before it begins."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedcof.federation.plan import Plan
from fedcof.federation.secure.statistic import Budget
from fedcof.privacy.secure.terms import Terms
from fedcof.settings import check_settings, setting

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
        0.1,
        "Share of the clients that may be in league with the server and still learn no more.",
        minimum=0,
        maximum=0.9,
    )
    dropouts: float = setting(
        0.1,
        "Share of the clients that may drop out in the middle of a sum without ending it.",
        minimum=0,
        maximum=0.9,
    )

    epsilon: float = setting(
        0.0,
        "Differential privacy of the sum, by one sample: noise shared among the clients; 0: none.",
        minimum=0,
    )
    delta: float = setting(1e-5, "The delta of that privacy.", above=0, maximum=0.1)

    def __post_init__(self) -> None:
        check_settings(self)

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
        return Budget(self.epsilon, self.delta, self.honest(clients))
