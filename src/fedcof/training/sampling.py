"""Which clients take part in a round."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def choose_clients(
    client_ids: Iterable[str], participation: float, *, seed: int, server_round: int
) -> list[str]:
    """Return the clients of a round in the order of their ids: a random share, at least one."""
    ordered = sorted(client_ids)
    size = max(1, round(participation * len(ordered)))
    chosen = np.random.default_rng([seed, server_round]).choice(len(ordered), size, replace=False)
    return [ordered[index] for index in sorted(chosen)]
