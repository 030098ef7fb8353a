"""A round of training as messages of Flower, and how a reply is checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from fedcof.errors import RefusedReplyError
from fedcof.training import TrainingSettings
from fedcof.training.local import State, Task, Update

ARRAYS, CONFIG, METRICS, CLIENT = "arrays", "config", "metrics", "client"

UpdateClients = Callable[[Task, Sequence[str]], list[Update]]
"""From a task and the ids of clients to their updates: the clients' side of a round."""


def to_record(state: State) -> ArrayRecord:
    """Return a state as the arrays of a message, in float32."""
    return ArrayRecord(
        {name: Array(np.asarray(value, dtype=np.float32)) for name, value in state.items()}
    )


def to_state(record: ArrayRecord) -> State:
    """Return the arrays of a message as a state, in float32."""
    return {name: array.numpy().astype(np.float32) for name, array in record.items()}


def address(record: RecordDict, client_id: str, node_id: int) -> Message:
    """Return what a strategy sends as a message to one client; a node may hold several."""
    config = ConfigRecord({**record.config_records[CONFIG], "client-id": client_id})
    return Message(RecordDict({ARRAYS: record[ARRAYS], CONFIG: config}), node_id, MessageType.TRAIN)


def task_of(message: Message) -> tuple[Task, str]:
    """Return what a train message asks, and of which client."""
    config: dict[str, Any] = dict(message.content.config_records[CONFIG])
    settings = TrainingSettings(**{f.name: config[f.name] for f in fields(TrainingSettings)})
    task = Task(to_state(message.content.array_records[ARRAYS]), settings, config["server-round"])
    return task, config["client-id"]


def answer(message: Message, client_id: str, update: Update) -> Message:
    """Return a client's reply to a train message."""
    metrics = MetricRecord({"num-examples": update.num_examples, "loss": update.loss})
    client = ConfigRecord({"client-id": client_id})
    content = RecordDict({ARRAYS: to_record(update.state), METRICS: metrics, CLIENT: client})
    return Message(content, reply_to=message)


def sender(reply: Message, nodes: Mapping[str, int]) -> str | None:
    """Return the client that a reply is from, None where its node does not hold that client."""
    if reply.has_error():
        return None
    record = reply.content.config_records.get(CLIENT)
    client_id = None if record is None else record.get("client-id")
    if not isinstance(client_id, str) or nodes.get(client_id) != reply.metadata.src_node_id:
        return None
    return client_id


def check_reply(reply: Message, state: State) -> None:
    """Check that a reply can be averaged, so that one bad client never stops the others.

    Raises
    ------
    RefusedReplyError
        If it has other arrays or shapes than the state that was sent, holds NaN or
        infinity, or does not say how many samples the client has and what its loss was.
    """
    content = reply.content
    if list(content.array_records) != [ARRAYS] or list(content.metric_records) != [METRICS]:
        raise RefusedReplyError(f"the reply holds {sorted(content)}, expected arrays and metrics")
    arrays, metrics = content.array_records[ARRAYS], content.metric_records[METRICS]
    if set(metrics) != {"num-examples", "loss"}:
        raise RefusedReplyError(f"the metrics are {sorted(metrics)}, expected num-examples, loss")
    num_examples, loss = metrics["num-examples"], metrics["loss"]
    if not isinstance(num_examples, int) or num_examples < 1:
        raise RefusedReplyError(f"num-examples is {num_examples}, expected a positive integer")
    if set(arrays) != set(state):
        raise RefusedReplyError(f"the arrays are {sorted(arrays)}, expected {sorted(state)}")
    for name, array in arrays.items():
        try:
            value = array.numpy()
            shape, dtype = value.shape, value.dtype
        except Exception:  # what numpy.load raises depends on where the bytes are wrong
            raise RefusedReplyError(f"the bytes of {name} are not an array") from None
        if shape != state[name].shape or dtype != np.float32:
            raise RefusedReplyError(
                f"{name} is {dtype} of shape {shape}, expected float32 of shape {state[name].shape}"
            )
        if not np.isfinite(value).all():
            raise RefusedReplyError(
                f"{name} holds NaN or infinity: the client's training diverged; a smaller "
                "client_lr may help"
            )
    # Last, since a training that diverged is told better by its arrays.
    if not isinstance(loss, int | float) or not math.isfinite(loss):
        raise RefusedReplyError(f"loss is {loss}, expected a finite number")


def wire_bytes(content: RecordDict) -> int:
    """Return the size of a message's content as Flower sends it, without HTTP."""
    return sum(len(part.deflate()) for part in get_all_nested_objects(content).values())
