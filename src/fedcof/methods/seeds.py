"""Random numbers of a client that are its own wherever and whenever it runs."""

from __future__ import annotations

import numpy as np


def client_rng(seed: int, client_id: str) -> np.random.Generator:
    """Return a generator from the seed of the federation and the client's id."""
    return np.random.default_rng([seed, *client_id.encode()])
