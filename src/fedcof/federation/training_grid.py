"""Clients in one process that answer like those of a federation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from flwr.app import Message
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from fedcof.federation.training_messages import CONFIG, UpdateClients, answer, task_of

_NODE = 1


class InProcessGrid(Grid):
    """A grid with one node, which holds the clients of an experiment.

    All clients of a round are updated by one call, which may compute them at once.

    Parameters
    ----------
    client_ids : sequence of str
    update : callable
        The clients' side: `probe_clients` with the clients' data, or `update_clients` with a model
        and the data.
    """

    def __init__(self, client_ids: Sequence[str], update: UpdateClients) -> None:
        self.nodes = dict.fromkeys(client_ids, _NODE)
        """Node id of each client: one node holds them all."""
        self._update = update
        _identify()

    def get_node_ids(self) -> Iterable[int]:
        """Return the node."""
        return [_NODE]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Return the replies to the train messages of a round, which all carry one model."""
        messages = list(messages)
        task, _ = task_of(messages[0])
        client_ids = [
            str(message.content.config_records[CONFIG]["client-id"]) for message in messages
        ]
        return [
            answer(message, client_id, update)
            for message, client_id, update in zip(
                messages, client_ids, self._update(task, client_ids), strict=True
            )
        ]

    def set_run(self, run: object) -> NoReturn:
        """Refuse: there is no run."""
        raise NotImplementedError

    @property
    def run(self) -> NoReturn:
        """Refuse: there is no run."""
        raise NotImplementedError

    def create_message(self, *args: object, **kwargs: object) -> NoReturn:
        """Refuse: strategies make their messages themselves."""
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> NoReturn:
        """Refuse: rounds go through `send_and_receive`."""
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> NoReturn:
        """Refuse: rounds go through `send_and_receive`."""
        raise NotImplementedError


def _identify() -> None:
    """Give this process the identity without which Flower makes no message."""
    for name in ("task_id", "run_id", "node_id"):
        try:
            getattr(TaskIdentity, name)
        except RuntimeError:
            setattr(TaskIdentity, name, 1)
