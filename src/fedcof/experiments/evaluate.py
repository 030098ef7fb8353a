"""One method, from the clients' features to the head's accuracy, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.data import Partition
from fedcof.heads import LinearHead
from fedcof.methods import Method, client_rng
from fedcof.summaries import from_bytes


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


def evaluate(
    method: Method[Any],
    dealt: Dealt,
    *,
    seed: int = 0,
    advance: Callable[[int], None] = lambda steps: None,
) -> tuple[Result, LinearHead]:
    """Summarize every client, send, solve, and score the head.

    Every summary is encoded and decoded as on the wire, so the head is the one that a real
    federation gets, to the last bit.

    Parameters
    ----------
    method : Method
    dealt : Dealt
    seed : int
        Seeds the random sets of the clients, each from the seed and its id.
    advance : callable
        Called with 1 after every client.

    Returns
    -------
    result : Result
    head : LinearHead
    """
    summaries, wire_bytes = [], 0
    for client_id, features, labels in dealt:
        rng = client_rng(seed, client_id)
        data = method.summarize(features, labels, client_id=client_id, rng=rng).to_bytes()
        wire_bytes += len(data)
        summaries.append(from_bytes(data))
        advance(1)
    start = time.perf_counter()
    head = method.solve(summaries)
    seconds = time.perf_counter() - start
    assert head.provenance is not None
    result = Result(
        method=method.name,
        accuracy=head.score(dealt.test_features, dealt.test_labels),
        formula_bytes=head.provenance.bytes,
        wire_bytes=wire_bytes,
        server_seconds=seconds,
    )
    return result, head
