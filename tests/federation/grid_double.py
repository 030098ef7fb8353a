"""A Flower grid in this process: SuperNodes that run the ClientApp, die, stall and lie as told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from time import time
from typing import Any

import numpy as np
from flwr.app import DEFAULT_TTL, ConfigRecord, Context, Error, Message, Metadata, RecordDict
from flwr.serverapp import Grid
from hypothesis import strategies as st

from fedcof.client import Sender
from fedcof.federation import server_app
from fedcof.federation.client_app import app
from fedcof.federation.plan import Plan
from fedcof.federation.records import Job
from fedcof.federation.server_app import FlowerGrid
from fedcof.federation.serving import Settings, serve
from fedcof.methods import FedCOF

_IDS = count()


def instruction(
    content: RecordDict, node_id: int, message_type: str, *, ttl: float = DEFAULT_TTL
) -> Message:
    """A message of the server with an id; Flower itself makes one in its own processes only."""
    metadata = Metadata(
        run_id=1,
        message_id=str(next(_IDS)),
        src_node_id=1,
        dst_node_id=node_id,
        reply_to_message_id="",
        group_id="",
        created_at=time(),
        ttl=ttl,
        message_type=message_type,
    )
    return Message(content=content, metadata=metadata)


server_app.Message = instruction


def make_clients(number, *, dim=4, seed=0):
    """Clients with a few samples of three classes each."""
    rng = np.random.default_rng(seed)
    clients = {}
    for i in range(number):
        labels = rng.integers(3, size=9)
        features = rng.normal(size=(9, dim)) + labels[:, None]
        clients[f"c{i:03d}"] = (features.astype(np.float32), labels)
    return clients


def without(clients, *names):
    """Clients but for some."""
    return {name: data for name, data in clients.items() if name not in names}


def one_each(clients):
    """A SuperNode for every client."""
    return {node_id: {name: clients[name]} for node_id, name in enumerate(clients, start=1)}


@st.composite
def dealt(draw, clients):
    """Up to four SuperNodes that share the clients and take their time."""
    holders = draw(st.lists(st.integers(1, 4), min_size=len(clients), max_size=len(clients)))
    nodes = {node_id: {} for node_id in holders}
    for (name, held), node_id in zip(clients.items(), holders, strict=True):
        nodes[node_id][name] = held
    delays = draw(st.fixed_dictionaries(dict.fromkeys(nodes, st.integers(0, 30))))
    return GridDouble(nodes, {n: lambda message, honest, s=s: s for n, s in delays.items()})


NODES: dict[int, Any] = {}
"""What the SuperNode of every id holds: the clients that its load_data returns."""


def load_data(context: Context) -> Any:
    """The user's function: returns what the SuperNode holds, or raises it."""
    held = NODES[context.node_id]
    if isinstance(held, BaseException):
        raise held
    return held


def short_rows(context: Context) -> Any:
    """The user's function for a test set of another backbone than the clients'."""
    return np.zeros((3, 2), np.float32), np.arange(3)


def say(message: Message, **record: Any) -> Message:
    """An answer with any record."""
    return Message(RecordDict({"answer": ConfigRecord(record)}), reply_to=message)


def fail(message: Message, code: int, reason: str = "") -> Message:
    """An answer as Flower makes it where a SuperNode gave none."""
    return Message(Error(code, reason), reply_to=message)


@dataclass
class GridDouble(Grid):
    """SuperNodes in this process, and a clock that goes on when the server sleeps.

    ``behave[node_id]`` takes the message and a function that answers honestly; it returns an
    answer, an exception that pulling it raises, the seconds that the honest answer takes, a pair of
    seconds and an answer, or None where the question cannot even be sent.
    """

    nodes: dict[int, Any]
    behave: dict[int, Callable[[Message, Callable[[], Message]], Any]] = field(default_factory=dict)
    time: float = 0.0
    asked: list[tuple[int, str, tuple[str, ...]]] = field(default_factory=list)
    configs: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What is in the node configuration of a SuperNode."""
    at: dict[float, Callable[[], None]] = field(default_factory=dict)
    """What happens by itself, by the time."""
    keys: dict[int, bytes] = field(default_factory=dict)
    """The public keys of the SuperNodes that have one."""

    def __post_init__(self) -> None:
        self.offline: set[int] = set()
        self._answers = {}
        self._sent: dict[str, Message] = {}
        self._pulled: dict[str, Message] = {}
        self.states = defaultdict(RecordDict)

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        for due in [due for due in self.at if due <= self.time]:
            self.at.pop(due)()

    def get_node_ids(self) -> Iterable[int]:
        return [node_id for node_id in self.nodes if node_id not in self.offline]

    def get_nodes(self) -> Iterable[Any]:
        for node in super().get_nodes():
            node.public_key = self.keys.get(node.node_id, b"")
            yield node

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._push(message) for message in messages]

    def _push(self, message: Message) -> str | None:
        node_id = message.metadata.dst_node_id
        if node_id in self.offline:
            return None
        message_id = message.metadata.message_id
        question = message.content["question"]
        action = message.metadata.message_type.removeprefix("query.")
        self._sent[message_id] = message
        self.asked.append((node_id, action, tuple(question.get("clients", ()))))

        def honest() -> Message:
            NODES[node_id] = self.nodes[node_id]
            config = self.configs.get(node_id, {})
            return app(message, Context(1, node_id, config, self.states[node_id], {}))

        behave = self.behave.get(node_id, lambda message, honest: honest())
        answer, due = behave(message, honest), self.time
        if answer is None:
            return None
        if isinstance(answer, int | float):
            answer = (answer, honest())
        if isinstance(answer, tuple):
            answer, due = answer[1], self.time + answer[0]
        self._answers[message_id] = (due, answer)
        return message_id

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        ready = [i for i in message_ids if i in self._answers and self._answers[i][0] <= self.time]
        answers = [self._answers.pop(i)[1] for i in ready]
        gone = [fail(self._pulled[i], 3) for i in message_ids if i in self._pulled]
        self._pulled |= {i: self._sent[i] for i in ready}
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return [*answers, *gone]

    def summarized(self) -> list[str]:
        """The clients that were asked for a summary, in order."""
        return [c for _, action, clients in self.asked for c in clients if action == "summarize"]

    def set_run(self, run: object) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
        raise NotImplementedError


JOB = Job(Sender(FedCOF()), data="grid_double:load_data")


def run(grid, folder, *, job=JOB, plan=None, **settings):
    """Serve over the double with its clock; a minute's patience where the plan is not given."""
    plan = plan or Plan(timeout=60)
    head, report, _ = serve(
        FlowerGrid(grid),
        Settings(job, folder, plan, **settings),
        now=lambda: grid.time,
        sleep=grid.sleep,
    )
    return head, report
