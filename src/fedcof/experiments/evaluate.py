"""One method, from the clients' features to the head's accuracy, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.client import Held, Sender
from fedcof.data import Partition
from fedcof.heads import Head
from fedcof.privacy.differential import CentralPrivacy, noised
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
    origin : mapping of str to str, default {}
        What made the features, as the summaries will say it.
    """

    features: NDArray[np.floating[Any]]
    labels: NDArray[Any]
    partition: Partition
    test_features: NDArray[np.floating[Any]]
    test_labels: NDArray[Any]
    origin: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[str, NDArray[np.floating[Any]], NDArray[Any]]]:
        """Yield every client that holds samples: its id, features and labels."""
        for client_id, rows in self.partition:
            if len(rows):
                yield client_id, self.features[rows], self.labels[rows]

    def planned(self, sender: Sender) -> Sender:
        """Return a sender with what its method plans for these clients; see `Sender.planned`."""
        clients = [
            (len(np.unique(self.labels[rows])), len(rows))
            for _, rows in self.partition
            if len(rows)
        ]
        return sender.planned(self.features.shape[1], clients, len(np.unique(self.labels)))


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


@dataclass(frozen=True, eq=False)
class Collected:
    """What arrived at the server.

    Parameters
    ----------
    summaries : list of Summary
    sizes : list of pairs of int
        Of every summary, the bytes by the paper's formulas and those on the wire.
    client_seconds : float
        The processor's time of a client on average, from its features to the bytes.
    """

    summaries: list[Summary]
    sizes: list[tuple[int, int]]
    client_seconds: float = 0.0

    @property
    def formula_bytes(self) -> int:
        """What all clients sent, by the paper's formulas."""
        return sum(formula for formula, _ in self.sizes)

    @property
    def wire_bytes(self) -> int:
        """What all clients sent, as it goes over the wire."""
        return sum(wire for _, wire in self.sizes)


def collect(
    sender: Sender,
    dealt: Dealt,
    *,
    advance: Callable[[int], None] = lambda steps: None,
) -> Collected:
    """Let every client summarize and send; encode and decode as on the wire.

    Parameters
    ----------
    sender : Sender
        How every client makes what it sends.
    dealt : Dealt
    advance : callable
        Called with the number of clients after every few.
    """
    summaries, sizes, seconds, clients = [], [], 0.0, 0
    for few in sender.a_few_at_a_time(Held(x, y, name, dealt.origin) for name, x, y in dealt):
        start = time.process_time()
        arrived = [sent for sent in sender.send_each(few) if sent is not None]
        seconds += time.process_time() - start
        summaries += [from_bytes(sent.data) for sent in arrived]
        sizes += [(sent.formula_bytes, sent.wire_bytes) for sent in arrived]
        clients += len(few)
        advance(len(few))
    return Collected(summaries, sizes, seconds / max(1, clients))


def evaluate(
    sender: Sender,
    dealt: Dealt,
    *,
    advance: Callable[[int], None] = lambda steps: None,
) -> tuple[Result, Head]:
    """Collect every client's summary, solve, and score the head.

    The head is the one that a real federation gets, to the last bit.

    Parameters
    ----------
    sender, dealt, advance
        As for `collect`.

    Returns
    -------
    result : Result
    head : Head
    """
    sent = collect(sender, dealt, advance=advance)
    start = time.perf_counter()
    head = sender.method.solve(sent.summaries).with_provenance(sending=sender.settings())
    seconds = time.perf_counter() - start
    result = Result(
        method=sender.method.name,
        accuracy=head.score(dealt.test_features, dealt.test_labels),
        formula_bytes=sent.formula_bytes,
        wire_bytes=sent.wire_bytes,
        server_seconds=seconds,
    )
    return result, head


def evaluate_noised(
    sender: Sender,
    dealt: Dealt,
    privacy: CentralPrivacy,
    *,
    advance: Callable[[int], None] = lambda steps: None,
) -> tuple[Result, Head]:
    """Sum over all clients, noise the sum once, solve and score: one who is trusted has all data.

    Parameters
    ----------
    sender, dealt, advance
        As for `collect`; the transform of the sender ends with the clipping.
    privacy : CentralPrivacy
        With ``honest`` 1.

    Returns
    -------
    result : Result
        Its bytes are those of the clients' numbers in the ring.
    head : Head
    """
    total, made_by, clients = np.zeros(privacy.layout.size, np.uint64), dealt.origin, 0
    for client_id, features, labels in dealt:
        own = sender.prepared(Held(features, labels, client_id, dealt.origin))
        limited = privacy.limited(own.features, own.labels, client_id=client_id)
        total, made_by = total + privacy.layout.encode(limited), own.origin
        clients += 1
        advance(1)
    start = time.perf_counter()
    head = privacy.head(noised(privacy, [total]), answered=1, origin=made_by)
    size = clients * privacy.layout.packed_size
    head = head.with_provenance(clients=clients, formula_bytes=size, sending=sender.settings())
    seconds = time.perf_counter() - start
    accuracy = head.score(dealt.test_features, dealt.test_labels)
    return Result(sender.method.name, accuracy, size, size, seconds), head
