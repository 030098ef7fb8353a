"""SuperNodes in processes of this machine: a grid for simulations.

Every question is answered as the ClientApp answers it, in one of as many processes as there are
cores. Which of thousands of SuperNodes a question goes to is a key of a dictionary; Flower's own
simulation looks through all open messages for each of them, and Ray takes seconds to start. A
process that dies takes the one question with it that it was answering, and a new one takes its
place. While the server is behind, the processes wait: so answers that nobody has taken yet do not
fill the memory.
"""

from __future__ import annotations

import logging
import os
import signal
from collections import deque
from collections.abc import Collection, Iterator
from functools import partial
from itertools import count
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from loky.backend import get_context  # type: ignore[import-untyped]
from pebble import ProcessExpired, ProcessFuture, ProcessPool
from threadpoolctl import threadpool_limits

from fedcof.federation.asking import Fault
from fedcof.federation.records import Record

if TYPE_CHECKING:
    from flwr.app import RecordDict

Answered = tuple[Record, "RecordDict | None"]
"""The answer of a SuperNode, and what it keeps."""

_WAITING_BYTES = 64 << 20
"""With so many bytes of answers waiting for the server, no further question is begun."""


class _Asked(NamedTuple):
    """A question that no process has yet."""

    id: str
    node_id: int
    action: str
    question: Record


class LocalGrid:
    """A `Grid` whose SuperNodes, numbered from 1, share the source of data that a job names.

    As a context manager: the processes end with it.

    Parameters
    ----------
    nodes : int
    """

    def __init__(self, nodes: int) -> None:
        self._nodes = range(1, nodes + 1)
        self._states: dict[int, RecordDict] = {}
        self._ids = map(str, count())
        self._asked: deque[_Asked] = deque()
        self._begun = 0
        self._arrived: deque[tuple[str, Record | Fault]] = deque()
        self._waiting_bytes = 0
        self._lock = RLock()  # answers arrive in a thread of the pool
        self._workers = min(nodes, os.cpu_count() or 1)
        self._pool = ProcessPool(
            max_workers=self._workers,
            initializer=_prepare,
            context=get_context("loky"),  # a script of the user is not run again in each
        )

    def __enter__(self) -> LocalGrid:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()

    def online(self) -> Collection[int]:
        """Return the ids of all SuperNodes, in the order to ask them."""
        return self._nodes

    def key(self, node_id: int) -> str:
        """Return that a SuperNode has no key."""
        return ""

    def ask(self, node_id: int, action: str, question: Record, ttl: float) -> str:
        """Queue a question; return its id."""
        asked = _Asked(next(self._ids), node_id, action, question)
        with self._lock:
            self._asked.append(asked)
            self._begin()
        return asked.id

    def _begin(self) -> None:
        """Give the processes as many questions as they may have: one more each than they answer."""
        while (
            self._asked and self._begun < 2 * self._workers and self._waiting_bytes < _WAITING_BYTES
        ):
            question_id, node_id, action, question = self._asked.popleft()
            state = self._states.get(node_id)
            try:
                future = self._pool.schedule(
                    respond, args=(node_id, len(self._nodes), action, dict(question), state)
                )
            except RuntimeError:  # it has ended, or was broken by a process that died on its own
                self._arrived.append((question_id, Fault("no process is left to answer")))
                continue
            self._begun += 1
            future.add_done_callback(partial(self._take, question_id, node_id))

    def _take(self, question_id: str, node_id: int, future: ProcessFuture[Answered]) -> None:
        if future.cancelled():  # the run has ended
            return
        answer: Record | Fault
        error = future.exception()
        if error is None:
            answer, state = future.result()
            if state is not None:
                self._states[node_id] = state
        elif isinstance(error, ProcessExpired):
            answer = Fault("its process died")
        else:  # not its text, which may hold a client's data
            answer = Fault(f"its ClientApp raised {type(error).__name__}")
        with self._lock:
            self._arrived.append((question_id, answer))
            self._waiting_bytes += _size_of(answer)
            self._begun -= 1
            self._begin()

    def answers(self, question_ids: Collection[str]) -> Iterator[tuple[str, Record | Fault]]:
        """Yield the answers that are there, each after the id of its question."""
        wanted = set(question_ids)
        for _ in range(len(self._arrived)):
            with self._lock:
                question_id, answer = self._arrived.popleft()
                self._waiting_bytes -= _size_of(answer)
                self._begin()
            if question_id in wanted:
                yield question_id, answer


def _size_of(answer: Record | Fault) -> int:
    """Return the bytes of the summaries in an answer."""
    return 0 if isinstance(answer, Fault) else len(answer.get("blob", b""))


class _Context:
    """What Flower's ``Context`` says of a SuperNode.

    Flower is imported where something is kept: of what a process imports at its start, it takes a
    third of the time.
    """

    run_id = 1

    def __init__(self, node_id: int, nodes: int, kept: RecordDict | None) -> None:
        self.node_id, self.kept = node_id, kept
        self.node_config: dict[str, Any] = {"partition-id": node_id - 1, "num-partitions": nodes}
        self.run_config: dict[str, Any] = {}

    @property
    def state(self) -> RecordDict:
        """What the SuperNode keeps from question to question."""
        if self.kept is None:
            from flwr.app import RecordDict

            self.kept = RecordDict()
        return self.kept


def respond(
    node_id: int, nodes: int, action: str, question: dict[str, Any], kept: RecordDict | None
) -> Answered:
    """Return what one of some SuperNodes answers, and what it keeps."""
    from fedcof.federation.responses import RESPONSES

    context = _Context(node_id, nodes, kept)
    return RESPONSES[action](question, context), context.kept


def _prepare() -> None:
    """Keep BLAS to one thread, the log off the progress bar, and Ctrl-C to the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger().addHandler(logging.NullHandler())
    threadpool_limits(1)
