"""Whom the server asks, and how long it waits."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Whom to ask, and how long to wait.

    Parameters
    ----------
    fraction : float, default 1.0
        Share of the known clients that a round asks.
    rounds : int, default 0
        Number of rounds; 0: until every known client has been asked.
    quorum : int, default 0
        Number of summaries that are enough; 0: wait for all.
    min_clients : int, default 1
        Number of clients to wait for before the first round.
    timeout : float, default 600.0
        Seconds to wait for an answer, for the clients to be there at the start, and for a SuperNode
        that went offline.
    attempts : int, default 3
        Faults in a row, with one client in the question, after which a SuperNode is given up.
    max_message : int, default 32 MiB
        Bytes of summaries in one answer.
    max_clients : int, default 1,000,000
        Number of clients of the federation.
    max_classes : int, default 100,000
        Number of classes of the federation.

    Raises
    ------
    ValueError
        If one makes no sense.
    """

    fraction: float = 1.0
    rounds: int = 0
    quorum: int = 0
    min_clients: int = 1
    timeout: float = 600.0
    attempts: int = 3
    max_message: int = 32 << 20
    max_clients: int = 1_000_000
    max_classes: int = 100_000

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction must be above 0 and at most 1, it is {self.fraction}")
        if not 0 < self.timeout < math.inf:
            raise ValueError(f"timeout must be a positive number of seconds, not {self.timeout}")
        for name, least in (
            ("rounds", 0),
            ("quorum", 0),
            ("min_clients", 1),
            ("attempts", 1),
            ("max_message", 1),
            ("max_clients", 1),
            ("max_classes", 1),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, it is {getattr(self, name)}")
