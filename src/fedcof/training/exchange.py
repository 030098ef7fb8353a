"""One round between the server and its clients: a task goes out, updates come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedcof.training.settings import TrainingSettings
from fedcof.wire import encoded_size

State = dict[str, NDArray[np.float32]]
"""The trained parameters by name: all that travels."""

PROMPTS = "backbone.prompts"
"""The pool of prompts in a state."""


@dataclass(frozen=True, eq=False)
class Task:
    """What the server asks of the clients of a round.

    Parameters
    ----------
    state : dict of str to ndarray of float32
        The parameters to start from.
    settings : TrainingSettings
    server_round : int
        From 1.
    """

    state: State
    settings: TrainingSettings
    server_round: int

    def batches(self, num_samples: int, client_id: str) -> Iterator[NDArray[np.int64]]:
        """Yield the rows of each batch, in a new order every epoch.

        The order depends on the seed, the round and the client alone, so a client's
        update is the same in one process and at a site.
        """
        rng = np.random.default_rng([self.settings.seed, self.server_round, *client_id.encode()])
        for _ in range(self.settings.local_epochs):
            order = rng.permutation(num_samples)
            for start in range(0, num_samples, self.settings.batch_size):
                yield order[start : start + self.settings.batch_size]


@dataclass(frozen=True, eq=False)
class Update:
    """What a client sends back.

    Parameters
    ----------
    state : dict of str to ndarray of float32
        Its parameters after training.
    num_examples : int
        The number of its samples: its weight in the average.
    loss : float
        Mean cross-entropy over the batches that it trained on.
    """

    state: State
    num_examples: int
    loss: float


@dataclass(frozen=True, eq=False)
class Replies:
    """What came back in a round.

    Parameters
    ----------
    updates : mapping of str to Update
        By client id, as they arrived: nothing is checked yet.
    failed : mapping of str to str
        Why a client sent no update.
    wire_bytes : int
        Bytes of what was sent, both ways.
    """

    updates: Mapping[str, Update]
    failed: Mapping[str, str] = field(default_factory=dict)
    wire_bytes: int = 0


class Exchange(Protocol):
    """How tasks reach clients: by a call in one process, or over a network."""

    def __call__(self, task: Task, client_ids: Sequence[str], /) -> Replies:
        """Send a task to some clients and return what they send back."""


UpdateClients = Callable[[Task, Sequence[str]], list[Update]]
"""From a task and the ids of clients to their updates, in the order of the ids."""


def in_process(update: UpdateClients) -> Exchange:
    """Return an exchange with clients in this process.

    All clients of a round are updated by one call, which may compute them at once. The bytes on the
    wire are those of the parameters as `fedcof.wire` would encode them, to each client and back.

    Parameters
    ----------
    update : callable
        The clients' side: `probe_clients` with the clients' data, or `update_clients` with a model
        and the data.
    """

    def exchange(task: Task, client_ids: Sequence[str]) -> Replies:
        updates = dict(zip(client_ids, update(task, client_ids), strict=True))
        sent = len(client_ids) * encoded_size(task.state, {})
        received = sum(encoded_size(reply.state, {}) for reply in updates.values())
        return Replies(updates, wire_bytes=sent + received)

    return exchange
