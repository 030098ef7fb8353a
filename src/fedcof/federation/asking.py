"""Questions to SuperNodes: one at a time each, with a deadline, asked again after a fault.

A SuperNode is at *fault* when it gives no answer in time, crashes, or its answer breaks the rules:
its next question names half as many clients, those with the fewest faults first. So a client that
kills the process is soon asked alone, and the others are unharmed. After `Plan.attempts` faults in
a row, each of a question with one client, the SuperNode is given up. An answer that comes after its
deadline is still taken. What the questions are and what the answers mean is the caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

from fedcof.federation.plan import Plan
from fedcof.federation.records import Record

_DAY = 24 * 3600.0


@dataclass(frozen=True)
class Fault:
    """There will be no answer, for a reason that the report gives."""

    reason: str
    gone: bool = False
    """Whether it is because the SuperNode went offline, so that it may be asked again."""
    blameless: bool = False
    """Whether it was lost with the answer of another SuperNode, so that it is asked again."""


class Grid(Protocol):
    """The part of Flower's grid that asking uses."""

    def online(self) -> Collection[int]:
        """Return the ids of the SuperNodes that are connected, in the order to ask them."""

    def key(self, node_id: int) -> str:
        """Return the fingerprint of a SuperNode's public key; empty where it has none."""

    def ask(self, node_id: int, action: str, question: Record, ttl: float) -> str | None:
        """Send a question that is good for `ttl` seconds; return its id, None if it cannot go."""

    def answers(self, question_ids: Collection[str]) -> Iterator[tuple[str, Record | Fault]]:
        """Yield the answers that are there, each after the id of its question."""


@dataclass(eq=False)
class Node:
    """How a SuperNode has answered so far."""

    last_seen: float = 0.0
    """When it came or went last."""
    online: bool = False
    question: Question | None = None
    batch_size: int = 1 << 30
    faults_in_a_row: int = 0
    given_up: str = ""


@dataclass(eq=False)
class Question:
    """A question that is sent and not answered yet."""

    id: str
    node_id: int
    action: str
    clients: tuple[str, ...]
    deadline: float
    asked_at: float
    late: bool = False


class Asking:
    """The questions that are open, and how every SuperNode has answered.

    Parameters
    ----------
    grid : Grid
    plan : Plan
        How long to wait for an answer, and after how many faults to give up.
    given_up : callable
        Called with a SuperNode that is asked no more, and the reason.
    now, wall : callable
        The clock, and the one on the wall, by which it is noted when a question was asked.
    """

    def __init__(
        self,
        grid: Grid,
        plan: Plan,
        given_up: Callable[[int, str], None],
        *,
        now: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._grid, self._plan, self._given_up = grid, plan, given_up
        self._now, self._wall = now, wall
        self._open: dict[str, Question] = {}
        self._faults: Counter[str] = Counter()
        self._online: set[int] = set()
        self.nodes: dict[int, Node] = {}
        self.sent = 0
        """How many questions have gone out."""
        self.closed = 0
        """How many are answered or due, or could not go out."""
        self.in_flight: set[str] = set()
        """The clients that are named in a question whose deadline has not passed."""

    def update_online(self) -> list[int]:
        """Note which SuperNodes are connected; return their ids in the order to ask them."""
        online, now = list(self._grid.online()), self._now()
        there = set(online)
        for node_id in self._online - there:
            self.nodes[node_id].online = False
        for node_id in there - self._online:
            self.nodes.setdefault(node_id, Node()).online = True
        for node_id in self._online ^ there:
            self.nodes[node_id].last_seen = now
        self._online = there
        return online

    def is_idle(self, node_id: int) -> bool:
        """Return whether a SuperNode may be asked: it has no open question and is not given up."""
        return not (self.nodes[node_id].question or self.nodes[node_id].given_up)

    def batch(self, node_id: int, wanted: Collection[str]) -> tuple[str, ...]:
        """Return the clients to name in the next question, those with the fewest faults first."""
        if not wanted:
            return ()
        ordered = sorted(wanted, key=lambda client_id: (self._faults[client_id], client_id))
        return tuple(ordered[: self.nodes[node_id].batch_size])

    def ask(
        self, node_id: int, action: str, question: Record, clients: tuple[str, ...] = ()
    ) -> bool:
        """Send a question that names some clients; return whether it went."""
        plan = self._plan
        # It expires long after our deadline: a late answer still counts. Where a site's clock is
        # hours ahead, Flower drops an answer that would have expired by that clock.
        ttl = max(_DAY, plan.timeout * (plan.attempts + 1))
        question_id = self._grid.ask(node_id, action, question, ttl)
        deadline = self._now() + plan.timeout
        sent = Question(question_id or "", node_id, action, clients, deadline, self._wall())
        if question_id is None:
            self.closed += 1
            self.fault(sent, "the question could not be sent")
            return False
        self.sent += 1
        self.nodes[node_id].question = self._open[question_id] = sent
        self.in_flight.update(clients)
        return True

    def answers(self) -> Iterator[tuple[Question, Record | Fault]]:
        """Yield the answers that are there; count a fault for every one that is due and is not."""
        for question_id, answer in self._grid.answers(list(self._open)):
            question = self._open.pop(question_id)
            if not question.late:
                self._close(question)
            yield question, answer
        now = self._now()
        for question in list(self._open.values()):  # in the order of their deadlines
            if question.late:
                continue
            if now < question.deadline:
                break
            question.late = True
            self._close(question)
            self.fault(question, f"no answer within {self._plan.timeout:g} s")

    def _close(self, question: Question) -> None:
        self.closed += 1
        self.nodes[question.node_id].question = None
        self.in_flight.difference_update(question.clients)

    def good(self, question: Question) -> None:
        """Note that a question was answered as it should be: the next one may name more clients."""
        node = self.nodes[question.node_id]
        node.faults_in_a_row = 0
        if question.clients:
            node.batch_size *= 2

    def fault(self, question: Question, reason: str) -> None:
        """Note that a question was not answered as it should be."""
        node = self.nodes[question.node_id]
        self._faults.update(question.clients)
        if len(question.clients) > 1:
            node.batch_size = len(question.clients) // 2
        else:
            node.faults_in_a_row += 1
        if node.faults_in_a_row >= self._plan.attempts:
            self.give_up(question.node_id, reason)

    def give_up(self, node_id: int, reason: str) -> None:
        """Ask a SuperNode no more; called again where the reason becomes clear later."""
        self.nodes[node_id].given_up = reason
        self._given_up(node_id, reason)
