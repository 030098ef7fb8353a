"""Sums over the clients, one attempt after the other until one succeeds.

A client that drops out in the middle of an attempt does not end it, up to the share that the plan
allows. An attempt that fails before the masks are opened has told the server nothing; the next one
has fresh keys, and goes without those who dropped out. Once clients have been asked to open the
masks, the server may come to know the sum over those who were there, so a later attempt must be
over the same clients: the difference of two sums over others would be that of a few, or of one.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import SecureError, TooFewClientsError
from fedcof.federation.asking import Grid
from fedcof.federation.calling import AT_CLIENT, ask_each
from fedcof.federation.collecting import Collector
from fedcof.federation.records import code_of
from fedcof.federation.report import SumReport
from fedcof.federation.secure.kept import KeptSum, KeptSums
from fedcof.federation.secure.plan import SAMPLES
from fedcof.federation.secure.signing import KnownSites
from fedcof.federation.secure.statistic import MASK, OPEN, PREPARE, SECURE, Statistic, agreement
from fedcof.federation.serving import Settings
from fedcof.federation.watching import Watch
from fedcof.privacy.secure.server import Server

STEPS = {
    PREPARE: "numbers",
    0: "keys",
    1: "shares",
    MASK: "masked numbers",
    3: "confirmation",
    OPEN: "opening",
}
"""What a client is asked for in each exchange of a sum."""

_LONGEST = 10_000
"""Characters of what a client says before a sum, above which it is refused."""


@dataclass(frozen=True)
class _Call:
    """One attempt: its report, what is summed, and the SuperNode of every client called."""

    tried: SumReport
    statistic: Statistic
    nodes: Mapping[str, int]


class SumRounds:
    """The sums of one run, phase after phase.

    Parameters
    ----------
    grid : Grid
    settings : Settings
    collector : Collector
        Knows the SuperNodes, their clients and whose they are; its report is that of the run.
    watch : Watch
    clock : mapping
        Keywords of `ask_each`.
    """

    def __init__(
        self,
        grid: Grid,
        settings: Settings,
        collector: Collector,
        watch: Watch,
        clock: Mapping[str, Any],
    ) -> None:
        self._grid, self._settings, self._plan = grid, settings, settings.plan
        self._collector, self._report = collector, collector.report
        self._watch, self._clock = watch, dict(clock)
        self._terms = settings.secure.terms(settings.plan)
        self._at_once: dict[int, int] = {}
        self._gone: set[str] = set()

    def phases(self, phases: int, kept: KeptSums) -> list[KeptSum]:
        """Return the sums of all phases, those that are kept and those of the clients now.

        Raises
        ------
        TooFewClientsError
            If too few clients are there for a sum.
        """
        done: list[KeptSum] = []
        for phase in range(phases):
            found = kept.read(phase)
            if found is None or not found.totals:
                found = self._sum(done, kept, found)
            done.append(found)
        return done

    def _sum(self, done: list[KeptSum], kept: KeptSums, begun: KeptSum | None) -> KeptSum:
        """Sum the next phase; where one was begun to be opened, over the same clients."""
        failed = ""
        for attempt in range(1, self._plan.attempts + 1):
            tried = SumReport(len(done) + 1, attempt)
            self._report.sums.append(tried)
            self._report.rounds += 1
            try:
                return self._attempt(tried, done, kept, begun)
            except SecureError as error:
                tried.failed = failed = str(error)
                self._watch.tell(
                    f"sum {tried.number}, attempt {attempt}: {failed}", event="sum", **asdict(tried)
                )
                begun = kept.read(len(done))
        raise TooFewClientsError(f"no head: {failed} ({self._report})")

    def _attempt(
        self, tried: SumReport, done: list[KeptSum], kept: KeptSums, begun: KeptSum | None
    ) -> KeptSum:
        only = (begun or done[0]).clients if begun or done else None
        nodes = self._present(only)
        if begun:
            _check_same(begun.clients, nodes)
        if done:
            dim, origin = done[0].dim, done[0].origin
        else:
            nodes, dim, origin = self._prepare(tried, nodes)
        if len(nodes) < self._terms.least:
            raise TooFewClientsError(
                f"no head: {len(nodes)} clients can be summed, at least {self._terms.least} are "
                f"needed ({self._report})"
            )
        call = _Call(tried, statistic_of(self._settings, dim, len(nodes), done), nodes)

        def opening(clients: Collection[str]) -> None:
            """Write down over whom the sum is, before anybody is asked to open it."""
            if begun:
                _check_same(begun.clients, clients)
            kept.write(call.statistic.phase, KeptSum(frozenset(clients), len(nodes), dim, origin))

        clients, totals = self._masked(call, opening)
        found = KeptSum(frozenset(clients), len(nodes), dim, origin, totals)
        kept.write(call.statistic.phase, found)
        tried.summed = sorted(clients)
        self._count(tried)
        return found

    def _present(self, only: Collection[str] | None) -> dict[str, int]:
        """Return the SuperNodes of the clients to ask, after waiting for as many as are needed."""
        wanted = self._terms.least if only is None else len(only)
        online = self._collector.roster(wanted)
        self._report.asked.update(online if only is None else only)
        return {
            name: node_id
            for name, node_id in online.items()
            if (name not in self._gone if only is None else name in only)
            and name not in self._report.refused
        }

    def _prepare(
        self, tried: SumReport, nodes: Mapping[str, int]
    ) -> tuple[dict[str, int], int, dict[str, str]]:
        """Return the clients whose numbers can be summed, their dim and what made their features.

        Those who have another one than most are refused.
        """
        call = _Call(tried, statistic_of(self._settings), nodes)
        given = self._ask(call, PREPARE, dict.fromkeys(nodes, b"-"), {})
        said = {name: text.decode(errors="replace") for name, text in given.items()}
        if not said:
            raise SecureError("too-few", "no client has said that its numbers can be summed")
        usual = max(Counter(said.values()).items(), key=lambda item: (item[1], item[0]))[0]
        dim, origin = _read_prepared(usual)
        for name in sorted(name for name, text in said.items() if text != usual):
            self._report.refuse(
                name, "origin: has features of another length or backbone than most"
            )
        return {name: nodes[name] for name in said if said[name] == usual}, dim, origin

    def _masked(
        self, call: _Call, opening: Callable[[Collection[str]], None]
    ) -> tuple[list[str], dict[str, NDArray[np.float64]]]:
        """Go through the five exchanges; return over whom the sum is, and the totals."""
        sum_id, members = secrets.token_hex(16), sorted(call.nodes)
        layout = call.statistic.layout(self._settings.job.sender.method)
        agreed = agreement(self._settings.job.to_record(), call.statistic, sum_id, members)
        keys = {name: key for name in members if (key := self._grid.key(call.nodes[name]))}
        server = Server(
            run=bytes.fromhex(sum_id),
            round_number=call.tried.attempt,
            clients=members,
            directory=KnownSites(agreed, keys, unsigned=True),
            layout=layout,
            terms=self._settings.secure.terms(self._plan, len(members)),
        )
        call.tried.asked = len(members)
        known = {"sum": sum_id, "members": members}
        for exchange in count():
            messages = server.advance()
            if not messages:
                return server.survivors, server.result()
            if exchange == OPEN:
                opening(server.survivors)
            size = layout.packed_size + _LONGEST if exchange == MASK else 0
            given = self._ask(call, exchange, messages, known, size)
            for name, data in given.items():
                try:
                    server.receive(name, data)
                except SecureError as error:
                    call.tried.answered[STEPS[exchange]] -= 1
                    self._drop(call.tried, name, exchange, f"{error.code}: {error.message}")
        raise AssertionError("a count does not end")

    def _ask(
        self,
        call: _Call,
        exchange: int,
        messages: Mapping[str, bytes],
        known: Mapping[str, Any],
        answer_size: int = 0,
    ) -> dict[str, bytes]:
        """Ask the clients for one step; who does not answer has dropped out."""
        tried, step = call.tried, STEPS[exchange]
        counts = {**self._collector.counts(), "waiting": len(messages)}
        self._watch.show(**counts, message=f"sum {tried.number}, attempt {tried.attempt}: {step}")
        job, statistic = self._settings.job.to_record(), call.statistic.to_record()
        asked = ask_each(
            self._grid,
            SECURE,
            {**job, **statistic, "exchange": exchange, **known},
            messages.__getitem__,
            {name: call.nodes[name] for name in messages},
            timeout=self._plan.timeout,
            max_message=self._plan.max_message,
            answer_size=answer_size,
            at_once=self._at_once,
            **self._clock,
        )
        tried.wire_bytes += asked.wire_bytes
        self._report.wire_bytes += asked.wire_bytes
        tried.answered[step] = len(asked.given)
        for name in sorted(messages.keys() - asked.given.keys()):
            reason = asked.failed.get(name, "its SuperNode left it out")
            if exchange == PREPARE and reason.endswith(AT_CLIENT):
                self._report.refuse(name, reason)
            else:
                self._drop(tried, name, exchange, reason)
        for node_id, names in asked.faults.items():
            self._report.nodes[node_id] = asked.failed[names[0]]
            self._at_once[node_id] = max(1, len(names) // 2)  # one that kills the process is alone
        return asked.given

    def _drop(self, tried: SumReport, name: str, exchange: int, reason: str) -> None:
        tried.dropped[name] = f"{STEPS[exchange]}: {reason}"
        self._gone.add(name)

    def _count(self, tried: SumReport) -> None:
        """Note in the run's report who is in the sum, and who is not."""
        report, summed = self._report, set(tried.summed)
        if tried.number == 1:
            for name in summed:
                report.accept(name, late=False)
        for name in report.asked - summed - report.refused.keys() - report.answered:
            dropped = [one.dropped[name] for one in report.sums if name in one.dropped]
            report.missing[name] = dropped[-1] if dropped else "not there when the sum began"
        self._watch.tell(
            f"sum {tried.number}: over {len(summed)} clients, {len(tried.dropped)} dropped out",
            event="sum",
            **asdict(tried),
        )


def statistic_of(
    settings: Settings, dim: int = 0, clients: int = 1, done: Sequence[KeptSum] = ()
) -> Statistic:
    """Return what clients sum next, after the sums that are done."""
    return Statistic(
        classes=settings.classes,
        dim=dim,
        radius=settings.secure.radius,
        samples=settings.plan.max_samples or SAMPLES,
        clients=clients,
        totals=tuple(kept.totals for kept in done),
        privacy=settings.secure.budget(clients),
    )


def _check_same(begun: Collection[str], now: Collection[str]) -> None:
    """Check that a sum that was begun to be opened is opened over the same clients."""
    if missing := set(begun) - set(now):
        raise SecureError(
            "other-clients",
            f"{len(missing)} clients are gone over whom this sum was begun to be opened; over the "
            "others alone it could tell what they added. Start again once they are back, or with "
            "another run folder if all agree to it",
        )


def _read_prepared(text: str) -> tuple[int, dict[str, str]]:
    """Return the length of a feature and what made it, as clients say it.

    Raises
    ------
    SecureError
        If it is something else.
    """
    try:
        known = json.loads(text[:_LONGEST])
        dim, origin = int(known["dim"]), dict(known["origin"])
        if dim < 1 or not all(isinstance(value, str) for value in origin.values()):
            raise ValueError(dim)
    except (ValueError, TypeError, KeyError) as error:
        raise SecureError(
            "answer", f"most clients say of their features what cannot be ({code_of(error)})"
        ) from None
    return dim, origin
