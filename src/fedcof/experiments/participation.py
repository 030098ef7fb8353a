"""Partial participation: clients that appear round by round and send once (section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcof.experiments.evaluate import Dealt
from fedcof.methods import Method
from fedcof.summaries import Summary

FRACTION = 0.3
"""The clients that appear in a round, in the paper."""


@dataclass(frozen=True)
class Round:
    """What the server has after a round."""

    round: int
    clients_seen: int
    formula_bytes: int
    accuracy: float


def appearances(clients: int, fraction: float, rng: np.random.Generator) -> list[list[int]]:
    """Return the clients that appear for the first time, round by round until all were seen."""
    size = max(1, round(fraction * clients))
    unseen, rounds = set(range(clients)), []
    while unseen:
        fresh = unseen.intersection(rng.choice(clients, size, replace=False).tolist())
        unseen -= fresh
        rounds.append(sorted(fresh))
    return rounds


def participate(
    method: Method[Any],
    dealt: Dealt,
    summaries: Sequence[Summary],
    *,
    seed: int,
    fraction: float = FRACTION,
) -> list[Round]:
    """Solve after every round from all clients seen so far.

    A client sends when it first appears. The last round has everything, and the server sorts by
    client, so its head is that of the single round to the last bit.

    Parameters
    ----------
    method : Method
    dealt : Dealt
        For its test set.
    summaries : sequence of Summary
        What the clients send.
    seed : int
        Draws the clients of the rounds.
    fraction : float
        Of the clients, that appear in a round.
    """
    rng = np.random.default_rng([seed, len(summaries)])
    seen: list[Summary] = []
    rounds: list[Round] = []
    for number, fresh in enumerate(appearances(len(summaries), fraction, rng), start=1):
        seen += [summaries[client] for client in fresh]
        accuracy = rounds[-1].accuracy if not fresh else _accuracy(method, seen, dealt)
        formula_bytes = sum(summary.formula_bytes for summary in seen)
        rounds.append(Round(number, len(seen), formula_bytes, accuracy))
    return rounds


def _accuracy(method: Method[Any], seen: Sequence[Summary], dealt: Dealt) -> float:
    return method.solve(seen).score(dealt.test_features, dealt.test_labels)
