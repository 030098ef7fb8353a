"""Partial participation: clients that appear round by round and send once (section 4.3)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedcof.errors import SummaryError
from fedcof.experiments.clients import Clients, traffic_of
from fedcof.experiments.evaluate import Collected, Dealt
from fedcof.experiments.experiment import Execution, Procedure
from fedcof.experiments.one_round import method_columns, traffic_columns
from fedcof.heads import Head
from fedcof.methods import Method
from fedcof.summaries import Summary
from fedcof.training import Round


def appearances(clients: int, participation: float, rng: np.random.Generator) -> list[list[int]]:
    """Return the clients that appear for the first time, round by round until all were seen."""
    size = max(1, round(participation * clients))
    unseen, rounds = set(range(clients)), []
    while unseen:
        fresh = unseen.intersection(rng.choice(clients, size, replace=False).tolist())
        unseen -= fresh
        rounds.append(sorted(fresh))
    return rounds


def participate(
    method: Method[Any],
    collected: Collected,
    dealt: Dealt,
    *,
    participation: float,
    seed: int,
    on_round: Callable[[Round], None] = lambda _: None,
) -> tuple[Head, list[Round]]:
    """Solve after every round from all clients seen so far.

    A client sends when it first appears. The last round has everything, and the server sorts by
    client, so its head is that of the single round to the last bit.

    Parameters
    ----------
    method : Method
    collected : Collected
        What the clients send.
    dealt : Dealt
        For its test set.
    participation : float
        The share of the clients that appear in a round.
    seed : int
        Draws the clients of the rounds.
    on_round : callable
        Called after every round.

    Returns
    -------
    head : Head
        From all clients.
    rounds : list of Round
        With the accuracy 0 as long as the clients seen hold one class between them.
    """
    summaries, sizes = collected.summaries, np.array(collected.sizes)
    rng = np.random.default_rng([seed, len(summaries)])
    seen: list[int] = []
    rounds: list[Round] = []
    accuracy = 0.0
    for number, fresh in enumerate(appearances(len(summaries), participation, rng), start=1):
        seen += fresh
        if fresh:
            head = _solve_early(method, [summaries[client] for client in seen])
            accuracy = 0.0 if head is None else _score(head, dealt)
        formula_bytes, wire_bytes = sizes[seen].sum(axis=0).tolist()
        done = Round(number, "training-free", accuracy, formula_bytes, wire_bytes, len(fresh))
        rounds.append(done)
        on_round(done)
    return method.solve(summaries, screened=True), rounds


def _solve_early(method: Method[Any], summaries: Sequence[Summary]) -> Head | None:
    """Solve without warnings of few means: more clients are still to come."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return method.solve(summaries, screened=True)
        except SummaryError:  # the first clients may hold one class between them
            return None


def _score(head: Head, dealt: Dealt) -> float:
    return head.score(dealt.test_features, dealt.test_labels)


@dataclass(frozen=True)
class Participation(Procedure):
    """Rounds in which a share of the clients appears, until all were seen."""

    method: Method[Any]
    participation: float = 0.3

    def columns(self) -> dict[str, Any]:
        """Return the method's name and hyperparameters, and the share of the clients."""
        return {
            **method_columns(self.method),
            "participation": self.participation,
        }

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return the accuracy after every round, and what was sent in all."""
        method = self.method.seeded(clients.seed)
        collected = clients.collected(clients.sender(method))
        _, rounds = participate(
            method,
            collected,
            clients.dealt,
            participation=self.participation,
            seed=clients.seed,
            on_round=execution.on_round,
        )
        return {
            "accuracy": rounds[-1].accuracy,
            "rounds": [asdict(each) for each in rounds],
            **traffic_columns(traffic_of(collected), clients),
        }
