"""What all must know of a secure run before it begins."""

from __future__ import annotations

from dataclasses import dataclass

from fedcof.federation.plan import Plan
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

    def __post_init__(self) -> None:
        check_settings(self)

    def terms(self, plan: Plan) -> Terms:
        """Return what a sum assumes of its clients."""
        return Terms(self.colluders, self.dropouts, least=max(LEAST, plan.min_clients))
