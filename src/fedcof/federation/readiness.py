"""A dry run: every site tries to answer for one of its clients, and says whether it could.

What is tried stays at the site. The server is told versions, the clock, how many clients there are,
what their features and labels are like, and a code where something is wrong.
"""

from __future__ import annotations

import json
import logging
import platform
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib import metadata
from typing import Any

from fedcof import __version__
from fedcof.errors import AnswerError, SummaryError
from fedcof.federation.asking import Fault, Grid
from fedcof.federation.records import Job, Record, checked_code, code_of
from fedcof.federation.skew import clock_fault, version_fault
from fedcof.federation.sources import extract, load_site
from fedcof.federation.watching import Watch

CHECK = "check"

_LONGEST = 500
"""Characters of a text of a site, above which it is refused."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """What a site says of itself.

    Parameters
    ----------
    version, flwr, python : str
        Versions at the site.
    clock : float
        The site's time, in seconds since 1970.
    clients : int
        How many it holds.
    dim : int
        Length of a feature of the client that was tried; 0 where it could not be.
    labels : str
        The type of its labels: "int" or "str".
    origin : str
        What made the features, such as the backbone's fingerprint, as JSON.
    summary_bytes : int
        How long its summary is, which was not sent.
    fault : str
        The code of what went wrong.
    """

    version: str = ""
    flwr: str = ""
    python: str = ""
    clock: float = 0.0
    clients: int = 0
    dim: int = 0
    labels: str = ""
    origin: str = ""
    summary_bytes: int = 0
    fault: str = ""

    def to_record(self) -> dict[str, Any]:
        """Return it as it goes over the wire."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Record) -> Readiness:
        """Read what `to_record` wrote.

        Raises
        ------
        AnswerError
            If it is something else.
        """
        known: dict[str, Any] = {}
        for item in fields(cls):
            value = record.get(item.name, item.default)
            if type(value) is not type(item.default):
                raise AnswerError(f"has no {item.name} of the right type")
            if isinstance(value, str) and not (len(value) <= _LONGEST and value.isprintable()):
                raise AnswerError(f"has a {item.name} that is too long or not printable")
            known[item.name] = value
        known["fault"] = checked_code(known["fault"]) if known["fault"] else ""
        return cls(**known)


def check(question: Record, context: Any) -> dict[str, Any]:
    """Return what a site says of itself, after trying to answer for its first client."""
    known: dict[str, Any] = {
        "version": __version__,
        "flwr": metadata.version("flwr"),
        "python": platform.python_version(),
        "clock": time.time(),
    }
    try:
        job = Job.from_record(question)
        site = load_site(job.data, context, job.reading)
        clients = site.clients
        known["clients"] = len(clients)
        if not clients:
            raise SummaryError("no-data", "there are no clients")
        first = min(clients)
        site.policy.check(job.sender, backbone=job.backbone)
        features, labels, origin = extract(*clients[first], job.backbone)
        known |= {
            "dim": int(features.shape[1]),
            "labels": "str" if labels.dtype.kind in "US" else "int",
            "origin": json.dumps(dict(origin or job.origin), sort_keys=True)[:_LONGEST],
        }
        sent = site.policy.send(
            job.sender,
            features,
            labels,
            backbone=job.backbone,
            client_id=first,
            origin=origin or job.origin,
        )
        known["summary_bytes"] = len(sent.data)
    except BaseException as error:  # as in `answering`
        _log.error("not ready: %s", code_of(error), exc_info=error)
        known["fault"] = code_of(error)
    return Readiness(**known).to_record()


@dataclass(eq=False)
class _Asked:
    question_id: str
    asked_at: float
    deadline: float


@dataclass(frozen=True)
class Site:
    """What is known of a SuperNode after a dry run."""

    node_id: int
    ready: Readiness = field(default_factory=Readiness)
    wrong: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """Return a line of the table."""
        return {
            "SuperNode": str(self.node_id),
            "clients": self.ready.clients,
            "fedcof": self.ready.version,
            "flwr": self.ready.flwr,
            "dim": self.ready.dim,
            "labels": self.ready.labels,
            "bytes": self.ready.summary_bytes,
            "wrong": "; ".join(self.wrong),
        }


def dry_run(
    grid: Grid,
    job: Job,
    *,
    min_clients: int,
    timeout: float,
    watch: Watch | None = None,
    now: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    pause: float = 1.0,
) -> list[Site]:
    """Ask every SuperNode whether it is ready, and say what is wrong with each.

    Parameters
    ----------
    grid : Grid
    job : Job
    min_clients : int
        How many clients to wait for.
    timeout : float
        Seconds to wait for them, and for an answer.
    watch : Watch, optional
        Is told of every site.
    now, wall, sleep, pause
        As `Collector` has them.

    Returns
    -------
    list of Site
        In the order of the SuperNodes' ids.
    """
    watch = watch or Watch()
    asked: dict[int, _Asked] = {}
    found: dict[int, Site] = {}
    again: set[int] = set()
    until = now() + timeout
    while True:
        for node_id in set(grid.online()) - asked.keys() | again:
            question_id = grid.ask(node_id, CHECK, job.to_record(), timeout * 2)
            asked[node_id] = _Asked(question_id or "", wall(), now() + timeout)
            if question_id is None:
                found[node_id] = Site(node_id, wrong=("the question could not be sent",))
        again.clear()
        waiting = {node_id: asked[node_id] for node_id in asked.keys() - found.keys()}
        answers = dict(grid.answers([question.question_id for question in waiting.values()]))
        for node_id, question in waiting.items():
            answer = answers.get(question.question_id)
            if isinstance(answer, Fault) and answer.blameless:
                again.add(node_id)
                continue
            site = _site(node_id, answer, question, wall, late=now() >= question.deadline)
            if site is not None:
                found[node_id] = site
        clients = sum(site.ready.clients for site in found.values())
        watch.show(state="waiting", nodes=len(asked), online=len(asked), known=clients)
        if asked.keys() == found.keys() and (clients >= min_clients or now() >= until):
            return compared([found[node_id] for node_id in sorted(found)])
        sleep(pause)


def _site(
    node_id: int,
    answer: Record | Fault | None,
    asked: _Asked,
    wall: Callable[[], float],
    *,
    late: bool,
) -> Site | None:
    """Return what a SuperNode says, None while it may still say something."""
    if answer is None:
        return Site(node_id, wrong=("no answer in time",)) if late else None
    if isinstance(answer, Fault):
        reason = f"{answer.reason}: its SuperNode's log says why, or its fedcof knows no dry run"
        return Site(node_id, wrong=(reason,))
    try:
        ready = Readiness.from_record(answer)
    except AnswerError as error:
        return Site(node_id, wrong=(f"its answer {error}",))
    wrong = (
        version_fault(ready.version),
        clock_fault(ready.clock, asked.asked_at, wall()),
        f"it cannot answer: {ready.fault}, its SuperNode's log says more" if ready.fault else "",
    )
    return Site(node_id, ready, tuple(filter(None, wrong)))


def compared(sites: Sequence[Site]) -> list[Site]:
    """Return the sites with what is not as it is at most of the others."""
    usual: dict[str, Any] = {}
    for name in ("dim", "labels", "origin"):
        counts = Counter(getattr(site.ready, name) for site in sites if getattr(site.ready, name))
        if counts:
            usual[name] = max(counts.items(), key=lambda item: (item[1], str(item[0])))[0]
    return [
        Site(site.node_id, site.ready, (*site.wrong, *_unusual(site.ready, usual)))
        for site in sites
    ]


_CALLED = {"dim": "features of length", "labels": "labels of type", "origin": "features made by"}


def _unusual(ready: Readiness, usual: Mapping[str, Any]) -> list[str]:
    return [
        f"{_CALLED[name]} {getattr(ready, name)}, most have {common}"
        for name, common in usual.items()
        if ready.dim and getattr(ready, name) != common
    ]
