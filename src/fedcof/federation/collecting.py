"""Collecting the clients' summaries: ask, wait, ask again, let in, keep, report.

A round draws clients that no round has drawn before and asks the SuperNodes that hold them
(`asking` says how, and what a fault is). The loop looks at the grid, takes the answers that are
there, and gives every idle SuperNode its next question. What an answer brings is kept in one
transaction, before any of it counts. With `Plan.one_question`, summaries come along with the names
of the clients; who came so is in the next round that is opened. A client *failed* when its summary
could not be made or was not let in: it is not asked again in this run.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcof.errors import AnswerError, SummaryError
from fedcof.federation.admission import Admission
from fedcof.federation.asking import Asking, Fault, Grid, Question
from fedcof.federation.ownership import Owners, read_roster
from fedcof.federation.plan import Plan
from fedcof.federation.records import DESCRIBE, SUMMARIZE, Answer, Job, Record, Roster
from fedcof.federation.report import CollectionReport
from fedcof.federation.skew import clock_fault, version_fault
from fedcof.federation.store import SummaryStore
from fedcof.federation.watching import Watch
from fedcof.summaries import Summary

_LOOK = 1.0
"""Seconds after which all clients are looked through for some to ask, or to give up, though no
answer has come: to look through a hundred thousand takes milliseconds."""


@dataclass(eq=False)
class _Site:
    """What a SuperNode has said of itself, and the clients that it may answer for."""

    roster: Roster
    clients: frozenset[str]


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
        self._sites: dict[int, _Site] = {}
        self._holders: dict[str, list[int]] = {}
        self._pending: set[str] = set()
        self._withdrawn = store.withdrawn()
        store.drop(store.misfits())
        self._accepted = store.client_ids()
        self._seen, self._look_at = 0, self._started
        self._classes = Counter(
            label for kept in store.sites() for label in set(kept.classes.tolist())
        )
        self.report = CollectionReport(
            resumed=set(self._accepted),
            withdrawn=set(self._withdrawn),
            missing={
                client_id: f"its summary in the run folder is damaged: {reason}"
                for client_id, reason in store.unreadable.items()
            },
        )
        self._asking = Asking(grid, plan, self.report.nodes.__setitem__, now=now, wall=wall)
        self._nodes = self._asking.nodes
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
        self.name_silent()  # of those that came since

    def name_silent(self) -> None:
        """Note the SuperNodes that named no clients, and of which none is expected any more."""
        for node_id, node in self._nodes.items():
            if node_id not in self._sites and not node.online:
                reason = "it went offline before it named its clients"
                self.report.nodes.setdefault(node_id, reason)
        self.report.unnamed = self.report.nodes.keys() - self._sites.keys()

    def _screen(self) -> None:
        self.report.misfit, self.report.odd = self._store.misfits(), self._store.odd()
        self.name_silent()
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
        for node_id, site in sorted(self._sites.items()):
            for client_id in sorted(site.clients) if self._nodes[node_id].online else ():
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
            if node.online and node_id not in self._sites and not node.given_up
        ]

    def _open_round(self) -> bool:
        """Choose the clients to ask next; return whether there are any."""
        asked = self._store.rounds()
        if self._enough():
            return False
        if self.report.rounds == 0 and (unanswered := self._unanswered(asked)):
            chosen = unanswered  # of a run before this one
        elif self._plan.rounds and len(asked) >= self._plan.rounds:
            return False
        else:
            if self._undescribed():
                self._wait(lambda: True)
            known = self._known()
            unasked = sorted(known.difference(*asked) - self._done())
            size = min(len(unasked), math.ceil(self._plan.participation * len(known)))
            rng = np.random.default_rng([self._seed, len(asked)])
            chosen = {unasked[i] for i in rng.permutation(len(unasked))[:size]}
            chosen |= self._done().difference(self.report.resumed, *asked)  # came with the names
            self._store.open_round(len(asked) + 1, chosen)
        self._pending |= chosen - self._done()
        self._look_at = self._now()
        self.report.rounds += bool(self._pending or chosen)
        return bool(self._pending or chosen)

    def _done(self) -> set[str]:
        """Return the clients that are not asked any more: their summary is there, or failed."""
        return self._accepted | self.report.refused.keys()

    def _unanswered(self, asked: list[set[str]]) -> set[str]:
        return set().union(*asked) - self._accepted - self._withdrawn

    def _poll(self) -> None:
        """Look at the grid once; sleep if nothing has happened.

        To look at the open questions of thousands of SuperNodes takes time, which is theirs where
        all are on one machine: at most half of it is spent so.
        """
        started, receiving = self._now(), 0.0
        sent = self._asking.sent
        self._heed_withdrawn()
        online = self._asking.update_online()
        answered = False
        for question, answer in self._asking.answers():
            arrived = self._now()
            self._receive(question, answer)
            receiving += self._now() - arrived
            answered = True
        if answered or self._asking.closed != self._seen or started >= self._look_at:
            self._seen, self._look_at = self._asking.closed, started + _LOOK
            wanted = self._to_ask(online)
            for node_id in online:
                if node_id in wanted:
                    self._ask_next(node_id)
            self._give_up_waiting()
        self._watch.look(self.counts)
        if self._asking.sent == sent:
            looking = self._now() - started - receiving
            self._sleep(max(0.0 if answered else self._pause, looking))

    def _to_ask(self, online: Collection[int]) -> set[int]:
        """Return the SuperNodes that have not named their clients, or have one to be asked for."""
        clients = self._pending - self._asking.in_flight
        holders = (self._holders.get(client_id, ()) for client_id in clients)
        return (set(online) - self._sites.keys()).union(*holders)

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

    def _ask_next(self, node_id: int) -> None:
        """Give an idle SuperNode its next question, if there is one."""
        if not self._asking.is_idle(node_id):
            return
        if node_id not in self._sites:
            self._asking.ask(node_id, DESCRIBE, {**self._job_record, **self._along(node_id)})
            return
        pending, in_flight = self._pending, self._asking.in_flight
        clients = self._asking.batch(
            node_id,
            [
                client_id
                for client_id in self._sites[node_id].clients
                if client_id in pending and client_id not in in_flight
            ],
        )
        if not clients:
            return
        self.report.asked.update(clients)
        named = {"clients": list(clients), "limit": self._plan.max_message}
        self._asking.ask(node_id, SUMMARIZE, {**self._job_record, **named}, clients)

    def _ask_on(self, node_id: int, answered: frozenset[str]) -> None:
        """Let a SuperNode go on while the clients that it has answered for are let in and kept.

        Not where a quorum may be reached with these.
        """
        if not self._plan.quorum and self._nodes[node_id].online:
            self._pending -= answered
            self._ask_next(node_id)

    def _along(self, node_id: int) -> Record:
        """Return what lets a SuperNode send summaries along with the names of its clients.

        Not where a client may have answered or withdrawn before, and not after a fault: it may be
        that one client's summary is at fault, and then the others are known by name first.
        """
        resumed = self.report.resumed or self._withdrawn
        if not self._plan.one_question or resumed or self._nodes[node_id].faults_in_a_row:
            return {}
        return {"limit": self._plan.max_message}

    # Receiving

    def _receive(self, question: Question, answer: Record | Fault) -> None:
        if not isinstance(answer, Fault):
            try:
                self._take(question, answer)
                return
            except AnswerError as error:
                answer = Fault(str(error))
        if question.late:
            self._explain(question, answer.reason)
        elif not answer.blameless:
            self._asking.fault(question, answer.reason)

    def _take(self, question: Question, record: Record) -> None:
        node_id = question.node_id
        if question.action == DESCRIBE:
            room = self._plan.max_clients - len(self._holders)
            roster = Roster.from_record(record, limit=room)
            if node_id not in self._sites:  # else this is the late answer to an earlier question
                self.report.nodes.pop(node_id, None)
                self._describe(node_id, roster)
                self._asking.good(question)
                self._name_skew(question, roster)
            along = self._plan.one_question and "answered" in record
            if along and not self._nodes[node_id].given_up:
                answer = Answer.from_record(record, limit=self._plan.max_message)
                self._take_summaries(question, answer, self._sites[node_id].clients)
            return
        answer = Answer.from_record(record, limit=self._plan.max_message)
        wanted = frozenset(question.clients)
        if not wanted & answer.client_ids:
            raise AnswerError("mentions none of the clients that it was asked for")
        self._asking.good(question)
        self._ask_on(node_id, wanted & answer.client_ids)
        self._take_summaries(question, answer, wanted)

    def _take_summaries(self, question: Question, answer: Answer, wanted: frozenset[str]) -> None:
        node_id = question.node_id
        self.report.asked |= wanted & answer.client_ids
        self.report.wire_bytes += sum(map(len, answer.summaries.values()))
        for client_id in sorted(wanted & answer.failed.keys()):
            if client_id not in self._accepted:
                self._refuse(client_id, f"{answer.failed[client_id]} (at the client)")
        self._accept(
            {name: answer.summaries[name] for name in sorted(wanted & answer.summaries.keys())},
            announced=self._sites[node_id].roster.samples,
            late=question.late,
        )
        told = answer.withheld.keys() & wanted & self.report.answered
        self.report.withheld |= {name: list(answer.withheld[name]) for name in told}
        if foreign := answer.client_ids - wanted:
            self.report.nodes[node_id] = (
                f"answered for {len(foreign)} clients that it was not asked for; they are ignored"
            )

    def _name_skew(self, question: Question, roster: Roster) -> None:
        """Say what is wrong with a site's version, which is then not asked, or with its clock."""
        version = version_fault(roster.version)
        if version:
            self._asking.give_up(question.node_id, version)
        fault = version or clock_fault(roster.clock, question.asked_at, self._wall())
        if fault:
            self.report.nodes[question.node_id] = fault
            self._watch.tell(f"SuperNode {question.node_id}: {fault}", event="skew")

    def _describe(self, node_id: int, roster: Roster) -> None:
        foreign = self._owners.foreign(roster.client_ids, self._grid.key(node_id))
        self.report.claimed |= {
            name: f"SuperNode {node_id} may not answer for it: {reason}"
            for name, reason in foreign.items()
        }
        clients = frozenset(name for name in roster.client_ids if name not in foreign)
        self._sites[node_id] = _Site(roster, clients)
        for client_id in sorted(clients):
            holders = self._holders.setdefault(client_id, [])
            holders.append(node_id)
            if len(holders) > 1:
                self.report.shared.add(client_id)
            if client_id in self.report.missing:  # its SuperNode is back under another id
                del self.report.missing[client_id]
                self._pending.add(client_id)

    def _accept(
        self, arrived: Mapping[str, bytes], *, announced: Mapping[str, int], late: bool
    ) -> None:
        """Let the summaries of some clients in: those that are new count once they are kept."""
        withdrawn = self._store.withdrawn()
        let_in: dict[str, tuple[Summary, bytes]] = {}
        found, most = set[int | str](), self._plan.max_classes
        here = [client_id for client_id in arrived if client_id not in withdrawn]
        for client_id in (name for name in here if name in self._accepted):
            same = self._store.holds(client_id, arrived[client_id])
            (self.report.duplicate if same else self.report.conflicting).add(client_id)
        fresh = {name: arrived[name] for name in here if name not in self._accepted}
        admitted = self._admission.admit_all(fresh, announced)
        for client_id, summary in admitted.items():
            try:
                if isinstance(summary, SummaryError):
                    raise summary
                labels = set(summary.classes.tolist()) - found
                new = {label for label in labels if label not in self._classes}
                if len(self._classes) + len(found) + len(new) > most:
                    raise SummaryError("classes", f"more than {most} classes in all")
            except SummaryError as error:
                self._refuse(client_id, f"{error.code}: {error.message}")
                continue
            found |= new
            let_in[client_id] = summary, arrived[client_id]
        if let_in:
            self.report.conflicting |= let_in.keys() - self._store.add(let_in)
        for client_id, (summary, _) in let_in.items():
            self._classes.update(set(summary.classes.tolist()))
            self._accepted.add(client_id)
            self._pending.discard(client_id)
            self.report.accept(client_id, late=late)
            self._advance(1)

    def _refuse(self, client_id: str, reason: str) -> None:
        self._pending.discard(client_id)
        self.report.refuse(client_id, reason)

    # Giving up

    def _explain(self, question: Question, reason: str) -> None:
        """Say of a question that was not answered in time why not: Flower tells it late."""
        if self._nodes[question.node_id].given_up:
            self._asking.give_up(question.node_id, reason)
        for client_id in question.clients & self.report.missing.keys():
            self.report.missing[client_id] = reason

    def _give_up_waiting(self) -> None:
        """Give up the clients that no SuperNode will answer for."""
        now = self._now()
        earliest = now - self._plan.timeout
        for client_id in sorted(self._pending - self._asking.in_flight):
            holders = [self._nodes[node_id] for node_id in self._holders.get(client_id, [])]
            hopeful = [node for node in holders if not node.given_up]
            if holders and not hopeful:
                reason = holders[-1].given_up
            elif (
                max([self._started, *(now if n.online else n.last_seen for n in hopeful)])
                < earliest
            ):
                reason = "its SuperNode is offline" if holders else "no SuperNode holds it any more"
            else:
                continue
            self._pending.discard(client_id)
            self.report.missing[client_id] = reason
