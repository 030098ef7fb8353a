"""One method, from the clients' features to the head's accuracy, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcof.data import Partition
from fedcof.heads import LinearHead
from fedcof.methods import Method, client_rng
from fedcof.summaries import Summary, from_bytes


@dataclass(frozen=True, eq=False)
class Dealt:
    """Features and labels, dealt to clients, and a test set.

    Parameters
    ----------
    features : ndarray of float, shape (n, dim)
    labels : ndarray of int or str, shape (n,)
    partition : Partition
        Which client holds which of the n samples.
    test_features : ndarray of float, shape (n_test, dim)
    test_labels : ndarray of int or str, shape (n_test,)
    """

    features: NDArray[np.floating[Any]]
    labels: NDArray[Any]
    partition: Partition
    test_features: NDArray[np.floating[Any]]
    test_labels: NDArray[Any]

    def __iter__(self) -> Iterator[tuple[str, NDArray[np.floating[Any]], NDArray[Any]]]:
        """Yield every client that holds samples: its id, features and labels."""
        for client_id, rows in self.partition:
            if len(rows):
                yield client_id, self.features[rows], self.labels[rows]


@dataclass(frozen=True)
class Result:
    """What a method cost and what it reached.

    Parameters
    ----------
    method : str
        The method's name.
    accuracy : float
        On the test set, from 0 to 1.
    formula_bytes : int
        What the clients send by the paper's formulas.
    wire_bytes : int
        What their summaries take as they go over the wire.
    server_seconds : float
        From the decoded summaries to the head.
    """

    method: str
    accuracy: float
    formula_bytes: int
    wire_bytes: int
    server_seconds: float


class Sent(NamedTuple):
    """What arrived at the server, and its size."""

    summaries: list[Summary]
    formula_bytes: int
    wire_bytes: int


PrivacyStep = Callable[[Summary, np.random.Generator], Summary | None]
"""What is done to a summary before it leaves the client; None if nothing of it is left."""


def collect(
    method: Method[Any],
    dealt: Dealt,
    *,
    seed: int = 0,
    privacy: PrivacyStep | None = None,
    advance: Callable[[int], None] = lambda steps: None,
) -> Sent:
    """Let every client summarize and send; encode and decode as on the wire.

    Parameters
    ----------
    method : Method
    dealt : Dealt
    seed : int
        Seeds what the clients draw, each from the seed and its id.
    privacy : callable, optional
        Done to every summary before it is sent.
    advance : callable
        Called with 1 after every client.
    """
    summaries, formula_bytes, wire_bytes = [], 0, 0
    for client_id, features, labels in dealt:
        rng = client_rng(seed, client_id)
        summary = method.summarize(features, labels, client_id=client_id, rng=rng)
        if privacy is not None:
            summary = privacy(summary, rng)
        if summary is not None:
            data = summary.to_bytes()
            summaries.append(from_bytes(data))
            formula_bytes += summary.formula_bytes
            wire_bytes += len(data)
        advance(1)
    return Sent(summaries, formula_bytes, wire_bytes)


def evaluate(
    method: Method[Any],
    dealt: Dealt,
    *,
    seed: int = 0,
    privacy: PrivacyStep | None = None,
    advance: Callable[[int], None] = lambda steps: None,
) -> tuple[Result, LinearHead]:
    """Collect every client's summary, solve, and score the head.

    The head is the one that a real federation gets, to the last bit.

    Parameters
    ----------
    method, dealt, seed, privacy, advance
        As for `collect`.

    Returns
    -------
    result : Result
    head : LinearHead
    """
    sent = collect(method, dealt, seed=seed, privacy=privacy, advance=advance)
    start = time.perf_counter()
    head = method.solve(sent.summaries)
    seconds = time.perf_counter() - start
    result = Result(
        method=method.name,
        accuracy=head.score(dealt.test_features, dealt.test_labels),
        formula_bytes=sent.formula_bytes,
        wire_bytes=sent.wire_bytes,
        server_seconds=seconds,
    )
    return result, head
