"""Collecting the clients' summaries: ask, wait, ask again, let in, keep, report.

A round draws clients that no round has drawn before and asks the SuperNodes that hold them, one
question at a time a SuperNode. The loop looks at the grid, takes the answers that are there, and
gives every idle SuperNode its next question.

Two things may go wrong. A SuperNode is at *fault* when it gives no answer in time, crashes, or its
answer breaks the rules of `records`: its next question names half as many clients, those with the
fewest faults first. So a client that kills the process is soon asked alone, and the others are
unharmed. After `Plan.attempts` faults in a row, each of a question with one client, the SuperNode
is given up. A client *failed* when its summary could not be made or was not let in: it is not asked
again in this run.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fedcof.errors import AnswerError, SummaryError
from fedcof.federation.admission import Admission
from fedcof.federation.ownership import Owners, read_roster
from fedcof.federation.plan import Plan
from fedcof.federation.records import DESCRIBE, SUMMARIZE, Answer, Job, Record, Roster
from fedcof.federation.report import CollectionReport
from fedcof.federation.skew import clock_fault, version_fault
from fedcof.federation.store import SummaryStore
from fedcof.federation.watching import Watch

_DAY = 24 * 3600.0


@dataclass(frozen=True)
class Fault:
    """There will be no answer, for a reason that the report gives."""

    reason: str
    gone: bool = False
    """Whether it is because the SuperNode went offline, so that it may be asked again."""


class Grid(Protocol):
    """The part of Flower's grid that collecting uses."""

    def online(self) -> Collection[int]:
        """Return the ids of the SuperNodes that are connected."""

    def key(self, node_id: int) -> str:
        """Return the fingerprint of a SuperNode's public key; empty where it has none."""

    def ask(self, node_id: int, action: str, question: Record, ttl: float) -> str | None:
        """Send a question that is good for `ttl` seconds; return its id, None if it cannot go."""

    def answer(self, question_id: str) -> Record | Fault | None:
        """Return the answer to a question, None while there is none."""


@dataclass(eq=False)
class _Node:
    """What the server knows of a SuperNode."""

    last_seen: float = 0.0
    online: bool = False
    roster: Roster | None = None
    clients: frozenset[str] | None = None
    question: _Question | None = None
    batch_size: int = 1 << 30
    faults_in_a_row: int = 0
    given_up: str = ""


@dataclass(eq=False)
class _Question:
    """A question that is sent and not answered yet."""

    id: str
    node_id: int
    action: str
    clients: tuple[str, ...]
    deadline: float
    asked_at: float
    late: bool = False


class Collector:
    """One run of collecting; `rounds` does the work.

    Parameters
    ----------
    grid : Grid
        The SuperNodes.
    store : SummaryStore
        Where accepted summaries are kept; those that are there are not asked for.
    job : Job
        What the clients do.
    admission : Admission
        Which summaries are let in.
    plan : Plan
        Whom to ask, and how long to wait.
    advance : callable
        Called with 1 after every client that is accepted.
    watch : Watch, optional
        Is shown how far collecting is.
    now, sleep : callable
        The clock, and how to wait `pause` seconds when nothing has happened.
    wall : callable
        The clock on the wall, beside which those of the sites are held.
    """

    def __init__(
        self,
        grid: Grid,
        store: SummaryStore,
        job: Job,
        admission: Admission,
        plan: Plan,
        *,
        advance: Callable[[int], None] = lambda steps: None,
        watch: Watch | None = None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        pause: float = 1.0,
    ) -> None:
        self._grid, self._store, self._admission, self._plan = grid, store, admission, plan
        self._job_record, self._seed = job.to_record(), job.sender.seed
        self._advance, self._now, self._sleep, self._pause = advance, now, sleep, pause
        self._watch, self._wall = watch or Watch(), wall
        declared = read_roster(Path(plan.roster)) if plan.roster else None
        self._owners = Owners(store, declared)
        self._started = now()
        self._nodes: dict[int, _Node] = {}
        self._holders: dict[str, list[_Node]] = {}
        self._open: dict[str, _Question] = {}
        self._pending: set[str] = set()
        self._faults: Counter[str] = Counter()
        self._in_flight: set[str] = set()
        self._withdrawn = store.withdrawn()
        store.drop(store.misfits())
        self._accepted = store.client_ids()
        self._classes = Counter(
            label for kept in store.summaries() for label in set(kept.classes.tolist())
        )
        self.report = CollectionReport(
            resumed=set(self._accepted),
            withdrawn=set(self._withdrawn),
            missing={
                client_id: f"its summary in the run folder is damaged: {reason}"
                for client_id, reason in store.unreadable.items()
            },
        )
        advance(len(self._accepted))

    def rounds(self) -> Iterator[CollectionReport]:
        """Collect; yield the report after every round, when a head may be solved from the store.

        Where there is nobody left to ask, it is yielded once.
        """
        self._wait(lambda: len(self._known()) >= self._needed())
        while self._open_round():
            while self._pending and not self._enough():
                self._poll()
            self._screen()
            for client_id in self._pending:
                self.report.missing[client_id] = "not waited for: the quorum was reached"
            self._pending = set()
            yield self.report
        if self.report.rounds == 0:
            self._screen()
            yield self.report
        self._name_silent()  # of those that came since

    def _name_silent(self) -> None:
        """Note the SuperNodes that named no clients, and of which none is expected any more."""
        for node_id, node in self._nodes.items():
            if node.clients is None and not node.online:
                reason = "it went offline before it named its clients"
                self.report.nodes.setdefault(node_id, reason)
        self.report.unnamed = {
            node_id for node_id in self.report.nodes if self._nodes[node_id].clients is None
        }

    def _screen(self) -> None:
        self.report.misfit, self.report.odd = self._store.misfits(), self._store.odd()
        self._name_silent()
        self._heed_withdrawn()

    def _heed_withdrawn(self) -> None:
        """Leave out the clients that have withdrawn, be it in this moment by another process."""
        self._withdrawn = self._store.withdrawn()
        self._accepted -= self._withdrawn
        self._pending -= self._withdrawn
        self.report.withdraw(self._withdrawn)

    def _known(self) -> set[str]:
        """Return the clients that there are to ask, and those who have answered."""
        return (self._accepted | self._holders.keys()) - self._withdrawn

    def roster(self, wanted: int = 0) -> dict[str, int]:
        """Return the SuperNode of each client that is online, after waiting for some clients.

        Of several SuperNodes that hold a client, the one with the lowest id stands for it.
        """
        if len(self._online()) < wanted:
            self._wait(lambda: len(self._online()) >= wanted)
        return self._online()

    def _online(self) -> dict[str, int]:
        nodes: dict[str, int] = {}
        for node_id, node in sorted(self._nodes.items()):
            for client_id in sorted(node.clients or ()) if node.online else ():
                nodes.setdefault(client_id, node_id)
        return {name: node_id for name, node_id in nodes.items() if name not in self._withdrawn}

    def _needed(self) -> int:
        return max(1, self._plan.min_clients, self._plan.quorum)

    def _enough(self) -> bool:
        return 0 < self._plan.quorum <= len(self._accepted) - len(self.report.misfit)

    def _wait(self, done: Callable[[], bool]) -> None:
        """Poll until it is done and every SuperNode online has named its clients, or time is up."""
        deadline = self._now() + self._plan.timeout
        self._poll()
        while self._now() < deadline and (self._undescribed() or not done()):
            self._poll()
        for node_id in self._undescribed():
            self.report.nodes[node_id] = "has not named its clients in time"

    def _undescribed(self) -> list[int]:
        return [
            node_id
            for node_id, node in self._nodes.items()
            if node.online and node.clients is None and not node.given_up
        ]

    def _open_round(self) -> bool:
        """Choose the clients to ask next; return whether there are any."""
        asked = self._store.rounds()
        if self._enough():
            return False
        if self.report.rounds == 0 and (unanswered := self._unanswered(asked)):
            self._pending |= unanswered  # of a run before this one
        elif self._plan.rounds and len(asked) >= self._plan.rounds:
            return False
        else:
            if self._undescribed():
                self._wait(lambda: True)
            known = self._known()
            unasked = sorted(known.difference(*asked) - self._accepted)
            size = min(len(unasked), math.ceil(self._plan.participation * len(known)))
            rng = np.random.default_rng([self._seed, len(asked)])
            chosen = {unasked[i] for i in rng.permutation(len(unasked))[:size]}
            self._store.open_round(len(asked) + 1, chosen)
            self._pending |= chosen
        self.report.rounds += bool(self._pending)
        return bool(self._pending)

    def _unanswered(self, asked: list[set[str]]) -> set[str]:
        return set().union(*asked) - self._accepted - self._withdrawn

    def _poll(self) -> None:
        """Look at the grid once; sleep if nothing has happened."""
        self._heed_withdrawn()
        online = self._update_online()
        answered = [self._receive(question) for question in list(self._open.values())]
        asked = [self._ask_next(node_id) for node_id in sorted(online)]
        self._give_up_waiting()
        self._watch.look(self.counts)
        if not any(answered) and not any(asked):
            self._sleep(self._pause)

    def counts(self) -> dict[str, Any]:
        """Return how far collecting is, as fields of `Status`."""
        return {
            "state": "collecting" if self.report.rounds else "waiting",
            "known": len(self._known()),
            "waiting": len(self._pending),
            "nodes": len(self._nodes),
            "online": sum(node.online for node in self._nodes.values()),
            "classes": dict(sorted((str(label), held) for label, held in self._classes.items())),
            **self.report.counts(),
        }

    def _update_online(self) -> set[int]:
        online = set(self._grid.online())
        for node_id in online:
            self._nodes.setdefault(node_id, _Node()).last_seen = self._now()
        for node_id, node in self._nodes.items():
            node.online = node_id in online
        return online

    # Asking

    def _ask_next(self, node_id: int) -> bool:
        """Give an idle SuperNode its next question; return whether there was one."""
        node = self._nodes[node_id]
        if node.question or node.given_up:
            return False
        if node.clients is None:
            return self._ask(node_id, DESCRIBE, ())
        wanted = sorted(
            node.clients & self._pending - self._in_flight,
            key=lambda client_id: (self._faults[client_id], client_id),
        )
        return bool(wanted) and self._ask(node_id, SUMMARIZE, tuple(wanted[: node.batch_size]))

    def _ask(self, node_id: int, action: str, clients: tuple[str, ...]) -> bool:
        plan, node = self._plan, self._nodes[node_id]
        record = dict(self._job_record)
        if action == SUMMARIZE:
            record |= {"clients": list(clients), "limit": plan.max_message}
            self.report.asked.update(clients)
        # It expires long after our deadline: a late answer still counts. Where a site's clock is
        # hours ahead, Flower drops an answer that would have expired by that clock.
        ttl = max(_DAY, plan.timeout * (plan.attempts + 1))
        question_id = self._grid.ask(node_id, action, record, ttl)
        deadline = self._now() + plan.timeout
        question = _Question(
            question_id or "", node_id, action, clients, deadline, asked_at=self._wall()
        )
        if question_id is None:
            self._fault(question, "the question could not be sent")
            return False
        node.question = self._open[question_id] = question
        self._in_flight.update(clients)
        return True

    # Receiving

    def _receive(self, question: _Question) -> bool:
        """Take the answer to a question if it is there; return whether it was."""
        answer = self._grid.answer(question.id)
        if answer is None:
            if not question.late and self._now() >= question.deadline:
                question.late = True
                self._close(question)
                self._fault(question, f"no answer within {self._plan.timeout:g} s")
            return False
        del self._open[question.id]
        if not question.late:
            self._close(question)
        if not isinstance(answer, Fault):
            try:
                self._take(question, answer)
            except AnswerError as error:
                answer = Fault(str(error))
        if isinstance(answer, Fault):
            (self._explain if question.late else self._fault)(question, answer.reason)
        return True

    def _close(self, question: _Question) -> None:
        self._nodes[question.node_id].question = None
        self._in_flight.difference_update(question.clients)

    def _take(self, question: _Question, record: Record) -> None:
        node = self._nodes[question.node_id]
        if question.action == DESCRIBE:
            room = self._plan.max_clients - len(self._holders)
            roster = Roster.from_record(record, limit=room)
            if node.clients is None:  # else this is the late answer to an earlier question
                self.report.nodes.pop(question.node_id, None)
                self._describe(question.node_id, roster)
                self._name_skew(question, roster)
            return
        answer = Answer.from_record(record, limit=self._plan.max_message)
        wanted = set(question.clients)
        if not wanted & (answer.summaries.keys() | answer.failed.keys()):
            raise AnswerError("mentions none of the clients that it was asked for")
        node.faults_in_a_row, node.batch_size = 0, 2 * node.batch_size
        self.report.wire_bytes += sum(map(len, answer.summaries.values()))
        for client_id in sorted(wanted & answer.failed.keys() - self._accepted):
            self._refuse(client_id, f"{answer.failed[client_id]} (at the client)")
        for client_id in sorted(wanted & answer.summaries.keys()):
            announced = node.roster.samples.get(client_id) if node.roster else None
            data = answer.summaries[client_id]
            self._accept(client_id, data, announced=announced, late=question.late)
        if foreign := (answer.summaries.keys() | answer.failed.keys()) - wanted:
            self.report.nodes[question.node_id] = (
                f"answered for {len(foreign)} clients that it was not asked for; they are ignored"
            )

    def _name_skew(self, question: _Question, roster: Roster) -> None:
        """Say what is wrong with a site's version, which is then not asked, or with its clock."""
        version = version_fault(roster.version)
        fault = version or clock_fault(roster.clock, question.asked_at, self._wall())
        if fault:
            self._nodes[question.node_id].given_up = version
            self.report.nodes[question.node_id] = fault
            self._watch.tell(f"SuperNode {question.node_id}: {fault}", event="skew")

    def _describe(self, node_id: int, roster: Roster) -> None:
        node = self._nodes[node_id]
        node.roster, node.faults_in_a_row = roster, 0
        key = self._grid.key(node_id)
        claims = {name: self._owners.claim(name, key) for name in roster.client_ids}
        self.report.claimed |= {
            name: f"SuperNode {node_id} may not answer for it: {reason}"
            for name, reason in claims.items()
            if reason
        }
        node.clients = frozenset(name for name, reason in claims.items() if not reason)
        for client_id in sorted(node.clients):
            holders = self._holders.setdefault(client_id, [])
            holders.append(node)
            if len(holders) > 1:
                self.report.shared.add(client_id)
            if client_id in self.report.missing:  # its SuperNode is back under another id
                del self.report.missing[client_id]
                self._pending.add(client_id)

    def _accept(self, client_id: str, data: bytes, *, announced: int | None, late: bool) -> None:
        if client_id in self._store.withdrawn():
            return
        if client_id in self._accepted:
            same = self._store.holds(client_id, data)
            (self.report.duplicate if same else self.report.conflicting).add(client_id)
            return
        try:
            summary = self._admission.admit(client_id, data, announced=announced)
            classes = set(summary.classes.tolist())
            if len(classes | self._classes.keys()) > self._plan.max_classes:
                raise SummaryError("classes", f"more than {self._plan.max_classes} classes in all")
        except SummaryError as error:
            self._refuse(client_id, f"{error.code}: {error.message}")
            return
        if not self._store.add(client_id, summary, data):
            self.report.conflicting.add(client_id)
        self._classes.update(classes)
        self._accepted.add(client_id)
        self._pending.discard(client_id)
        self.report.accept(client_id, late=late)
        self._advance(1)

    def _refuse(self, client_id: str, reason: str) -> None:
        self._pending.discard(client_id)
        self.report.refuse(client_id, reason)

    # Giving up

    def _explain(self, question: _Question, reason: str) -> None:
        """Say of a question that was not answered in time why not: Flower tells it late."""
        node = self._nodes[question.node_id]
        if node.given_up:
            node.given_up = self.report.nodes[question.node_id] = reason
        for client_id in question.clients & self.report.missing.keys():
            self.report.missing[client_id] = reason

    def _fault(self, question: _Question, reason: str) -> None:
        node = self._nodes[question.node_id]
        self._faults.update(question.clients)
        if len(question.clients) > 1:
            node.batch_size = len(question.clients) // 2
        else:
            node.faults_in_a_row += 1
        if node.faults_in_a_row >= self._plan.attempts:
            node.given_up = reason
            self.report.nodes[question.node_id] = reason

    def _give_up_waiting(self) -> None:
        """Give up the clients that no SuperNode will answer for."""
        earliest = self._now() - self._plan.timeout
        for client_id in sorted(self._pending - self._in_flight):
            holders = self._holders.get(client_id, [])
            hopeful = [node for node in holders if not node.given_up]
            if holders and not hopeful:
                reason = holders[-1].given_up
            elif max([self._started, *(node.last_seen for node in hopeful)]) < earliest:
                reason = "its SuperNode is offline" if holders else "no SuperNode holds it any more"
            else:
                continue
            self._pending.discard(client_id)
            self.report.missing[client_id] = reason
