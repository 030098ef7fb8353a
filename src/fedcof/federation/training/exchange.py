"""A round of training over Flower's grid: one train message a client, and its reply."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from io import BytesIO
from typing import Any, Literal, Protocol

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

from fedcof.errors import RefusedReplyError
from fedcof.federation.asking import Fault
from fedcof.training import TrainingSettings
from fedcof.training.exchange import Replies, State, Task, Update

_PAUSE = 1.0

ARRAYS, CONFIG, METRICS, CLIENT = "arrays", "config", "metrics", "client"


class TrainGrid(Protocol):
    """What training needs of Flower."""

    def online(self) -> Collection[int]:
        """Return the ids of the SuperNodes that are connected."""

    def train(
        self, contents: Mapping[str, tuple[int, RecordDict]], *, timeout: float
    ) -> Iterable[tuple[str, RecordDict | Fault]]:
        """Send train messages to nodes; return the answers that come in time, each with its key."""


@dataclass(frozen=True, eq=False)
class GridExchange:
    """An exchange with the clients behind Flower's SuperNodes.

    Parameters
    ----------
    grid : TrainGrid
    nodes : mapping of str to int
        Node id of each client.
    config : mapping
        What clients need beside the task: ``data``, ``backbone``, ``classes`` and, where they train
        on images, ``network``, the fingerprint of the backbone.
    timeout : float, default 3600
        Seconds that a round waits for its clients.
    wait : float, default 0
        Seconds to wait for a client to be back where all of a round have gone offline.
    now, sleep : callable
        The clock, and how to wait.
    """

    grid: TrainGrid
    nodes: Mapping[str, int]
    config: Mapping[str, Any]
    timeout: float = 3600.0
    wait: float = 0.0
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, task: Task, client_ids: Sequence[str]) -> Replies:
        """Send a task to some clients and return what they send back.

        Where none does because all went offline, they are asked again once one of them is back.
        """
        replies, gone = self._ask(task, client_ids)
        until = self.now() + self.wait
        while gone == set(client_ids) and self._wait(client_ids, until):
            again, gone = self._ask(task, client_ids)
            replies = replace(again, wire_bytes=replies.wire_bytes + again.wire_bytes)
        if self.wait and gone == set(client_ids):
            waited = f", and none of the round was back after {self.wait:g} s (train-wait)"
            replies = replace(replies, failed={k: v + waited for k, v in replies.failed.items()})
        return replies

    def _wait(self, client_ids: Sequence[str], until: float) -> bool:
        """Return whether a client came back until then."""
        nodes = {self.nodes[client_id] for client_id in client_ids}
        while self.now() < until:
            self.sleep(_PAUSE)
            if nodes & set(self.grid.online()):
                return True
        return False

    def _ask(self, task: Task, client_ids: Sequence[str]) -> tuple[Replies, set[str]]:
        """Return the replies, and the clients that are offline."""
        arrays = to_record(task.state)  # one for all messages
        contents = {
            client_id: (self.nodes[client_id], to_content(arrays, task, client_id, self.config))
            for client_id in client_ids
        }
        updates: dict[str, Update] = {}
        failed = dict.fromkeys(client_ids, f"no reply within {self.timeout:g} s")
        gone: set[str] = set()
        size = sum(wire_bytes(content) for _, content in contents.values())
        for client_id, answer in self.grid.train(contents, timeout=self.timeout):
            if isinstance(answer, Fault):
                failed[client_id] = answer.reason
                gone |= {client_id} if answer.gone else set()
                continue
            size += wire_bytes(answer)
            try:
                updates[client_id] = to_update(answer, client_id)
            except RefusedReplyError as error:
                failed[client_id] = str(error)
        return Replies(updates, failed, size), gone


def to_record(state: State) -> ArrayRecord:
    """Return a state as the arrays of a message, in float32."""
    return ArrayRecord(
        {name: Array(np.asarray(value, dtype=np.float32)) for name, value in state.items()}
    )


def to_content(
    arrays: ArrayRecord, task: Task, client_id: str, config: Mapping[str, Any]
) -> RecordDict:
    """Return the content of a train message: the model, and a flat record of all else."""
    values = {
        **asdict(task.settings),
        **config,
        "server-round": task.server_round,
        "client-id": client_id,
    }
    return RecordDict({ARRAYS: arrays, CONFIG: ConfigRecord(values)})


def to_task(content: RecordDict) -> tuple[Task, str]:
    """Return what a train message asks, and of which client."""
    config: dict[str, Any] = dict(content.config_records[CONFIG])
    settings = TrainingSettings(**{f.name: config[f.name] for f in fields(TrainingSettings)})
    arrays = content.array_records[ARRAYS]
    state = {name: array.numpy().astype(np.float32) for name, array in arrays.items()}
    return Task(state, settings, config["server-round"]), config["client-id"]


def to_answer(client_id: str, update: Update) -> RecordDict:
    """Return the content of a client's reply."""
    metrics = MetricRecord({"num-examples": update.num_examples, "loss": update.loss})
    client = ConfigRecord({"client-id": client_id})
    return RecordDict({ARRAYS: to_record(update.state), METRICS: metrics, CLIENT: client})


def to_update(content: RecordDict, client_id: str) -> Update:
    """Read what `to_answer` wrote; the numbers are checked later, by `check_update`.

    Raises
    ------
    RefusedReplyError
        If it is something else, or of another client.
    """
    client = content.config_records.get(CLIENT)
    if client is None or client.get("client-id") != client_id:
        raise RefusedReplyError("the reply is of another client")
    if list(content.array_records) != [ARRAYS] or list(content.metric_records) != [METRICS]:
        raise RefusedReplyError(f"the reply holds {sorted(content)}, expected arrays and metrics")
    metrics: dict[str, Any] = dict(content.metric_records[METRICS])
    if set(metrics) != {"num-examples", "loss"}:
        raise RefusedReplyError(f"the metrics are {sorted(metrics)}, expected num-examples, loss")
    state = {}
    for name, array in content.array_records[ARRAYS].items():
        try:
            state[name] = _read_array(array.data)
        except Exception:  # what NumPy raises depends on where the bytes are wrong
            raise RefusedReplyError(f"the bytes of {name} are not an array") from None
    return Update(state, metrics["num-examples"], metrics["loss"])


def _read_array(data: bytes) -> NDArray[Any]:
    """Return the array in a file of NumPy: its own bytes, whatever size its header claims."""
    file = BytesIO(data)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[np.lib.format.read_magic(file)]
    shape, in_columns, dtype = read_header(file)
    if dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError("the header does not fit the bytes")
    order: Literal["C", "F"] = "F" if in_columns else "C"
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape, order=order)


def wire_bytes(content: RecordDict) -> int:
    """Return the bytes of a message's records.

    Arrays count as they are serialised, numbers 8 bytes, texts and names their length. Not counted
    is what Flower adds: the ids and hashes of its objects, the message's metadata, HTTP and TLS.
    """
    size = 0
    for arrays in content.array_records.values():
        size += sum(len(name) + len(array.data) for name, array in arrays.items())
    for config in content.config_records.values():
        size += sum(len(name) + _size(value) for name, value in config.items())
    for metrics in content.metric_records.values():
        size += sum(len(name) + _size(value) for name, value in metrics.items())
    return size


def _size(value: object) -> int:
    if isinstance(value, list):
        return sum(map(_size, value))
    return len(value) if isinstance(value, str | bytes) else 8
