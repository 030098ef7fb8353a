"""A run of a federation as one page: what became of whom, and what came out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedcof.errors import RunFolderError
from fedcof.federation.codes import in_words
from fedcof.federation.report import CollectionReport
from fedcof.federation.secure.rounds import STEPS
from fedcof.federation.serving import REPORT, STORE
from fedcof.federation.status import STATUS, Status, read_status
from fedcof.federation.store import SummaryStore
from fedcof.report.drawings import Drawing
from fedcof.report.figures import answers_over_time, class_histograms
from fedcof.report.page import render
from fedcof.summaries import Summary
from fedcof.training import Round, load_history

HISTORY = "history.json"

_MOST_ROWS, _MOST_DRAWN = 1000, 60

Row = dict[str, str]


@dataclass(frozen=True)
class Part:
    """A part of the page: a table, figures, or both."""

    anchor: str
    title: str
    rows: Sequence[Row] = ()
    numbers: frozenset[str] = frozenset()
    """Columns that hold numbers."""
    note: str = ""
    drawings: Sequence[Drawing] = ()


@dataclass(frozen=True)
class RunReport:
    """What a run folder holds."""

    folder: Path
    status: Status
    report: CollectionReport
    summaries: Mapping[str, Summary]
    history: Sequence[Round] = ()
    parts: list[Part] = field(init=False)

    def __post_init__(self) -> None:
        parts = [part for part in _parts(self) if part.rows or part.drawings]
        object.__setattr__(self, "parts", parts)

    @property
    def version(self) -> str:
        """The version of fedcof at the server."""
        return self.status.version

    @property
    def introduction(self) -> str:
        """How the run stands, in a sentence or two."""
        silence = self.status.silent_for()
        state = f"{self.status.state}, and silent since" if silence else f"{self.status.state} at"
        updated = datetime.fromtimestamp(self.status.updated, UTC)
        told = f" {self.status.message}" if self.status.message else ""
        return f"{state} {updated:%Y-%m-%d %H:%M:%S} UTC: {self.report}.{told}"


def is_run(folder: Path) -> bool:
    """Return whether a folder is that of a run of a federation."""
    return (folder / STATUS).exists()


def gather_run(folder: Path) -> RunReport:
    """Return what a run folder holds.

    Raises
    ------
    RunFolderError
        If it is none, or cannot be read.
    """
    status = read_status(folder)
    if not (folder / REPORT).exists():
        raise RunFolderError(
            f"no round of {folder} has ended: fedcof status {folder} says how far the run is"
        )
    report = CollectionReport.load(folder / REPORT)
    with SummaryStore(folder / STORE) as store:
        left_out = store.misfits()
        summaries = {kept.client_ids[0]: kept for kept in store.summaries()}
    history = load_history(folder / HISTORY) if (folder / HISTORY).exists() else ()
    report.misfit = {**report.misfit, **left_out}
    return RunReport(folder, status, report, summaries, history)


def as_run_page(run: RunReport, title: str = "") -> str:
    """Return the page of a run."""
    return render(
        "run.html.j2",
        title=title or f"Federation run {run.folder.name}",
        run=run,
        drawings={part.anchor: part.drawings for part in run.parts},
    )


def _parts(run: RunReport) -> Iterator[Part]:
    yield Part("clients", "Clients", _counts(run), frozenset({"number"}), drawings=_timeline(run))
    rows = _clients(run)
    note = f"The first {_MOST_ROWS:,} of {len(rows):,}." if len(rows) > _MOST_ROWS else ""
    numbers = {"samples", "classes", "largest number", "weights move by", "others' labels"}
    drawn = _by_classes(run)
    yield Part("table", "Every client", rows[:_MOST_ROWS], frozenset(numbers), note, drawn)
    yield Part(
        "set-aside",
        "Refused, set aside, missing",
        _set_aside(run.report)[:_MOST_ROWS],
        note="They do not count in the head.",
    )
    yield Part(
        "sums",
        "Sums over the clients",
        _sums(run.report),
        frozenset({"sum", "attempt", "called", *STEPS.values(), "dropped out", "in the sum"}),
        note="How many clients took each step; the server was told no number of any one of them.",
    )
    dropped = [
        {"client": name, "sum": str(one.number), "attempt": str(one.attempt), "at": reason}
        for one in run.report.sums
        for name, reason in sorted(one.dropped.items())
    ]
    yield Part("dropped", "Dropped out of a sum", dropped[:_MOST_ROWS])
    claimed = _reasons(run.report.claimed, "why")[:_MOST_ROWS]
    yield Part("claimed", "Claimed by another SuperNode", claimed)
    yield Part("odd", "Odd, but they count", _reasons(run.report.odd, "why")[:_MOST_ROWS])
    yield Part("classes", "Classes", _classes(run), frozenset({"clients", "samples"}))
    nodes = {str(node): reason for node, reason in run.report.nodes.items()}
    yield Part("supernodes", "SuperNodes at fault", _reasons(nodes, "fault", name="SuperNode"))
    yield Part(
        "head",
        "The head on the server's test set",
        _rounds(run),
        frozenset({"round", "clients", "loss", "accuracy", "MB"}),
    )


def _counts(run: RunReport) -> list[Row]:
    status, report = run.status, run.report
    counts = {
        "known": status.known,
        "asked in the last run": len(report.asked),
        "answered in it": len(report.answered),
        "from before": len(report.resumed),
        "count in the head": len(report.accepted if report.sums else run.summaries),
        "refused": len(report.refused),
        "set aside beside the others": len(report.misfit),
        "missing": len(report.missing),
        "withdrawn": len(report.withdrawn),
        "held by several SuperNodes": len(report.shared),
        "sent another summary afterwards": len(report.conflicting),
        "SuperNodes online": status.online,
        "SuperNodes seen": status.nodes,
        "SuperNodes that named no clients": len(report.unnamed),
        "classes": len(status.classes),
        "bytes received": report.wire_bytes,
    }
    return [{"": name, "number": f"{number:,}"} for name, number in counts.items()]


def _timeline(run: RunReport) -> list[Drawing]:
    if len(run.status.timeline) < 2:
        return []
    seconds, answered = zip(*run.status.timeline, strict=True)
    data = [{"seconds": s, "answered": a} for s, a in run.status.timeline]
    caption = "How many clients had answered by when, in the last run."
    return [Drawing(answers_over_time(seconds, answered), caption, data)]


def _by_classes(run: RunReport) -> list[Drawing]:
    shown = {
        name: {str(label): n for label, n in kept.counts_by_class.items()}
        for name, kept in sorted(run.summaries.items())[:_MOST_DRAWN]
    }
    if not shown:
        return []
    caption = "How many samples of each class a client holds"
    if len(run.summaries) > len(shown):
        caption += f", of the first {len(shown)} of {len(run.summaries):,} clients"
    data = [
        {"client": name, "class": label, "samples": n}
        for name, counts in shown.items()
        for label, n in counts.items()
    ]
    return [Drawing(class_histograms(shown), f"{caption}.", data)]


def _clients(run: RunReport) -> list[Row]:
    """Return a line for every client that counts, those with the most influence first."""
    influence = run.report.influence
    rows = []
    for name, kept in sorted(run.summaries.items(), key=lambda item: _order(influence, item[0])):
        row = {
            "client": name,
            "samples": f"{kept.total:,}",
            "classes": f"{len(kept.counts_by_class):,}",
            "largest number": f"{kept.scale:.3g}",
            "holds": ", ".join(f"{label}: {n:,}" for label, n in _largest(kept.counts_by_class)),
        }
        if influence:
            shift, flipped = influence.get(name, (math.nan, math.nan))
            row["weights move by"] = "" if math.isnan(shift) else f"{shift:.3g}"
            row["others' labels"] = "" if math.isnan(flipped) else f"{flipped:.1%}"
        rows.append(row)
    return rows


def _order(influence: Mapping[str, Sequence[float]], name: str) -> tuple[float, str]:
    return (-influence[name][0] if name in influence else math.inf, name)


def _largest(counts: Mapping[Any, int], most: int = 4) -> list[tuple[str, int]]:
    largest = sorted(counts.items(), key=lambda item: -item[1])
    shown = [(str(label), n) for label, n in largest[:most]]
    rest = largest[most:]
    return [*shown, ("others", sum(n for _, n in rest))] if rest else shown


def _set_aside(report: CollectionReport) -> list[Row]:
    groups = {"refused": report.refused, "set aside": report.misfit, "missing": report.missing}
    return [
        {"client": name, "": group, "why": reason, "what to do": in_words(_after_step(reason))}
        for group, reasons in groups.items()
        for name, reason in sorted(reasons.items())
    ]


def _after_step(reason: str) -> str:
    """Return why a client is not there without the step of a sum that it did not take."""
    step, _, why = reason.partition(": ")
    return why if step in STEPS.values() else reason


def _sums(report: CollectionReport) -> list[Row]:
    """Return a line for every attempt at a sum."""
    return [
        {
            "sum": str(one.number),
            "attempt": str(one.attempt),
            "called": f"{one.asked:,}",
            **{step: f"{one.answered.get(step, 0):,}" for step in STEPS.values()},
            "dropped out": f"{len(one.dropped):,}",
            "in the sum": f"{len(one.summed):,}",
            "failed": one.failed,
        }
        for one in report.sums
    ]


def _reasons(reasons: Mapping[str, str], title: str, *, name: str = "client") -> list[Row]:
    return [{name: key, title: reason} for key, reason in sorted(reasons.items())]


def _classes(run: RunReport) -> list[Row]:
    clients: Counter[str] = Counter()
    samples: Counter[str] = Counter()
    for kept in run.summaries.values():
        for label, n in kept.counts_by_class.items():
            clients[str(label)] += 1
            samples[str(label)] += n
    return [
        {"class": label, "clients": f"{clients[label]:,}", "samples": f"{samples[label]:,}"}
        for label in sorted(clients, key=lambda label: (clients[label], label))
    ][:_MOST_ROWS]


def _rounds(run: RunReport) -> list[Row]:
    if not run.history:
        if (accuracy := run.status.accuracy) is None:
            return []
        return [{"head": "of the clients", "accuracy": f"{accuracy:.1%}"}]
    return [
        {
            "round": str(done.number),
            "stage": done.stage,
            "clients": f"{done.clients:,}",
            "loss": "" if done.loss is None else f"{done.loss:.4f}",
            "accuracy": "" if math.isnan(done.accuracy) else f"{done.accuracy:.1%}",
            "MB": f"{done.wire_bytes / 1e6:,.2f}",
            "refused": "; ".join(done.refused),
        }
        for done in run.history
    ]
