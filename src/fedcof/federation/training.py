"""The rounds of federated training: Flower's strategies, started from any head.

``Strategy.start`` of Flower can neither go on from a checkpoint nor stop early, it draws the nodes
of a round from a generator without a seed, and one reply that is not as expected ends it. So the
rounds are run here, by the three calls that make a round of a strategy: configure, send, aggregate.
What a strategy computes is left to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from fedcof.errors import CorruptBytesError, RefusedReplyError, TrainingError
from fedcof.federation.faults import fault_of
from fedcof.federation.training_messages import (
    address,
    check_reply,
    sender,
    to_record,
    to_state,
    wire_bytes,
)
from fedcof.federation.training_strategies import (
    make_strategy,
    optimizer_state,
    set_optimizer_state,
)
from fedcof.files import write_atomically
from fedcof.training import Round, TrainingSettings, training_bytes
from fedcof.training.local import State, Task
from fedcof.wire import decode, encode

_KIND = "training-1"


class MessageGrid(Protocol):
    """What training needs of a grid."""

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages and return the replies that come within `timeout` seconds."""


class _Participants:
    """The grid as a strategy sees it when it makes the message of a round.

    It need not see the clients: they are chosen here, and each gets the message.
    """

    def __init__(self, nodes: Sequence[int]) -> None:
        self._nodes = nodes

    def get_node_ids(self) -> Iterable[int]:
        return self._nodes


def choose_clients(
    client_ids: Iterable[str], participation: float, *, seed: int, number: int
) -> list[str]:
    """Return the clients of a round in the order of their ids: a random share, at least one."""
    ordered = sorted(client_ids)
    size = max(1, round(participation * len(ordered)))
    chosen = np.random.default_rng([seed, number]).choice(len(ordered), size, replace=False)
    return [ordered[index] for index in sorted(chosen)]


def train(
    grid: MessageGrid,
    nodes: Mapping[str, int],
    start: State,
    settings: TrainingSettings,
    evaluate: Callable[[State], float],
    *,
    history: Sequence[Round] = (),
    target: float | None = None,
    checkpoint: Path | None = None,
    checkpoint_every: int = 10,
    on_round: Callable[[Round], None] = lambda one: None,
    timeout: float = 3600.0,
    data_is: Mapping[str, Any] | None = None,
    depends_on: Mapping[str, Any] | None = None,
) -> tuple[State, list[Round]]:
    """Train a model with the clients behind a grid.

    Parameters
    ----------
    grid : MessageGrid
        Flower's as `FlowerGrid`, of a simulation or a deployment, or `InProcessGrid`.
    nodes : mapping of str to int
        Node id of each client.
    start : dict of str to ndarray of float32
        The parameters to start from.
    settings : TrainingSettings
    evaluate : callable
        From a state to its accuracy on the test set.
    history : sequence of Round, optional
        What came before: the training-free rounds.
    target : float, optional
        Stop at the first round with this accuracy.
    checkpoint : path, optional
        A file to keep the run in. If it is there, the run goes on from it, to the same bits.
    checkpoint_every : int, default 10
        In rounds.
    on_round : callable, optional
        Called with every round, also with those before a checkpoint.
    timeout : float, default 3600
        How many seconds a round waits for its clients.
    data_is : mapping, optional
        What clients over a network need beside the task: ``data``, ``backbone``, ``classes`` and,
        where they train on images, ``network``, the fingerprint of the backbone.
    depends_on : mapping, optional
        What else the numbers depend on, as JSON has it; kept in the checkpoint, so that it is not
        used for other clients or other data.

    Returns
    -------
    state : dict of str to ndarray of float32
    rounds : list of Round
        ``history``, the start, and the rounds of training.

    Raises
    ------
    TrainingError
        If no reply of a round can be used, the server's step diverges, or the checkpoint belongs to
        another run or has more rounds. The checkpoint before it stays.
    """
    strategy, state = make_strategy(settings), start
    rounds = [*history, _start(history, evaluate(start))]
    if checkpoint is not None and checkpoint.exists():
        state, rounds = _load(checkpoint, settings, start, depends_on or {}, strategy)
        done = len(rounds) - len(history) - 1
        if done > settings.rounds:
            raise TrainingError(
                f"{checkpoint} has {done} rounds of training, more than {settings.rounds}: ask for "
                "as many, give another folder, or delete it to start again"
            )
    for one in rounds:
        on_round(one)
    first = len(history) + 1
    for server_round in range(len(rounds) - first + 1, settings.rounds + 1):
        if target is not None and rounds[-1].accuracy >= target:
            break
        client_ids = choose_clients(
            nodes, settings.participation, seed=settings.seed, number=server_round
        )
        sent, accepted, refused = _exchange(
            grid,
            strategy,
            {client_id: nodes[client_id] for client_id in client_ids},
            Task(state, settings, server_round),
            config={**asdict(settings), **(data_is or {})},
            timeout=timeout,
        )
        if not accepted:
            raise TrainingError(
                f"round {server_round}: none of the {len(client_ids)} replies can be used; "
                + "; ".join(refused[:3])
            )
        parameters = sum(value.size for value in state.values())
        aggregated, metrics = strategy.aggregate_train(server_round, accepted)
        # Flower's adaptive strategies return float64; what is sent, and kept, is float32.
        state = _finite(to_state(cast(ArrayRecord, aggregated)), server_round)
        last = rounds[-1]
        rounds.append(
            Round(
                number=last.number + 1,
                stage="training",
                accuracy=evaluate(state),
                formula_bytes=last.formula_bytes + training_bytes(parameters, 1, len(client_ids)),
                wire_bytes=last.wire_bytes + sent,
                clients=len(accepted),
                loss=None if metrics is None else float(cast(float, metrics["loss"])),
                refused=tuple(refused),
            )
        )
        on_round(rounds[-1])
        if checkpoint is not None and (
            server_round % checkpoint_every == 0 or server_round == settings.rounds
        ):
            arrays = {f"state/{name}": value for name, value in state.items()}
            metadata = {
                "kind": _KIND,
                "settings": asdict(settings),
                "start": _digest(start),
                "depends_on": dict(depends_on or {}),
                "rounds": [asdict(one) for one in rounds],
            }
            write_atomically(checkpoint, encode(arrays | optimizer_state(strategy), metadata))
    return state, rounds


def _start(history: Sequence[Round], accuracy: float) -> Round:
    last = history[-1] if history else Round(-1, "training", 0.0, 0, 0, 0)
    return Round(
        last.number + 1, "training", accuracy, last.formula_bytes, last.wire_bytes, clients=0
    )


def _exchange(
    grid: MessageGrid,
    strategy: FedAvg,
    nodes: Mapping[str, int],
    task: Task,
    *,
    config: Mapping[str, Any],
    timeout: float,
) -> tuple[int, list[Message], list[str]]:
    """Send a task to nodes by client id.

    Returns the bytes of both ways, the replies that can be used, and what is wrong with the others.
    """
    anybody = cast(Grid, _Participants(list(nodes.values())[:1]))
    [message] = strategy.configure_train(
        task.server_round, to_record(task.state), ConfigRecord(dict(config)), anybody
    )
    messages = {
        client_id: address(message.content, client_id, node) for client_id, node in nodes.items()
    }
    size = wire_bytes(next(iter(messages.values())).content) * len(messages)
    replies, errors = {}, {}
    for reply in grid.send_and_receive(messages.values(), timeout=timeout):
        client_id = sender(reply, nodes)
        if client_id is not None:
            size += wire_bytes(reply.content)
            replies[client_id] = reply
        elif reply.has_error():
            errors[reply.metadata.reply_to_message_id] = fault_of(reply.error)
    accepted, refused = [], []
    # By client id, so that the order of arrival changes no bit of the sums.
    for client_id in sorted(nodes):
        try:
            if client_id not in replies:
                late = f"no reply within {timeout:g} s"
                question = messages[client_id].metadata.message_id
                raise RefusedReplyError(errors.get(question, late))
            check_reply(replies[client_id], task.state)
            accepted.append(replies[client_id])
        except RefusedReplyError as error:
            refused.append(f"client {client_id!r}: {error}")
    return size, accepted, refused


def _finite(state: State, server_round: int) -> State:
    for name, value in state.items():
        if not np.isfinite(value).all():
            raise TrainingError(
                f"round {server_round}: the server's step made {name} NaN or infinite; take a "
                "smaller server_lr"
            )
    return state


def _digest(state: State) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(state.items()):
        digest.update(name.encode() + value.tobytes())
    return digest.hexdigest()


def _load(
    path: Path,
    settings: TrainingSettings,
    start: State,
    depends_on: Mapping[str, Any],
    strategy: FedAvg,
) -> tuple[State, list[Round]]:
    try:
        arrays, metadata = decode(path.read_bytes())
    except CorruptBytesError as error:
        raise TrainingError(f"{path}: {error}; delete it to start again") from None
    if metadata.get("kind") != _KIND:
        raise TrainingError(f"{path} is not a checkpoint of training")
    kept = metadata["settings"] | metadata.get("depends_on", {})
    own = {**asdict(settings), **depends_on}
    other = {
        name: kept.get(name)
        for name in sorted(kept.keys() | own.keys())
        if name != "rounds" and kept.get(name) != own.get(name)
    }
    if metadata["start"] != _digest(start):
        other["start"] = "another model"
    if other:
        raise TrainingError(
            f"{path} is of a run with {other}; give the same settings or another folder, or delete "
            "it to start again"
        )
    set_optimizer_state(strategy, arrays)
    prefix = "state/"
    state = {
        name.removeprefix(prefix): value
        for name, value in arrays.items()
        if name.startswith(prefix)
    }
    rounds = [Round(**{**one, "refused": tuple(one["refused"])}) for one in metadata["rounds"]]
    return state, rounds
