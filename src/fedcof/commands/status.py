"""``fedcof status``: how far a run is, from what its server writes into the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.text import Text

from fedcof.commands.shared import Json, errors_for_people, print_result, table_of

if TYPE_CHECKING:
    from fedcof.federation.status import Status

RunFolder = Annotated[Path, typer.Argument(help="The run folder, on the SuperLink's machine.")]

_SHOWN = 8
"""Lines of a table of classes, reasons or SuperNodes in the terminal."""


def status(folder: RunFolder, *, as_json: Json = False) -> None:
    """Show how far a run is, or how it ended: clients, SuperNodes, rate, classes, bytes."""
    from fedcof.federation.status import read_status

    with errors_for_people():
        found = read_status(folder)
        print_result(found.to_document(), *view(found), as_json=as_json)
        if found.state == "failed":
            raise typer.Exit(1)


def view(status: Status) -> list[RenderableType]:
    """Return a status as the terminal shows it."""
    parts: list[RenderableType] = [Text(_headline(status))]
    if status.known:
        parts.append(ProgressBar(total=status.known, completed=status.settled, width=60))
    parts.append(table_of([{"": name, "value": value} for name, value in _facts(status)]))
    for title, counts in (
        ("refused", status.refused),
        ("missing", status.missing),
        ("class", status.classes),
    ):
        if counts:
            parts.append(table_of(_first(title, counts)))
    if status.faults:
        faults = list(status.faults.items())
        parts.append(table_of([{"SuperNode": k, "fault": v} for k, v in faults[:_SHOWN]]))
        parts += [Text(f"and {len(faults) - _SHOWN} more")] * (len(faults) > _SHOWN)
    return parts


def _headline(status: Status) -> str:
    if silence := status.silent_for():
        return (
            f"{status.state}, but nothing was written for {timedelta(seconds=round(silence))}: the "
            "server app has died, or its machine is down. What was collected is kept: run the same "
            "command again"
        )
    return f"{status.state}: {status.message}" if status.message else status.state


def _facts(status: Status) -> list[tuple[str, str]]:
    left = status.seconds_left
    facts = {
        "clients known": f"{status.known:,}",
        "asked": f"{status.asked:,}",
        "answered": f"{status.answered:,}",
        "from before": f"{status.resumed:,}" if status.resumed else "",
        "waited for": f"{status.waiting:,}",
        "refused": f"{sum(status.refused.values()):,}",
        "set aside beside the others": f"{status.misfit:,}",
        "odd, but they count": f"{status.odd:,}",
        "missing": f"{sum(status.missing.values()):,}",
        "SuperNodes online": f"{status.online:,} of {status.nodes:,}",
        "SuperNodes that named no clients": f"{status.unnamed:,}" if status.unnamed else "",
        "rounds": f"{status.rounds:,}",
        "classes": f"{len(status.classes):,}",
        "received": f"{status.wire_bytes / 1e6:,.2f} MB",
        "rate": f"{status.rate:,.2g} clients/s",
        "time left": "" if left is None else str(timedelta(seconds=round(left))),
        "accuracy of the head": "" if status.accuracy is None else f"{status.accuracy:.1%}",
        "training": _training(status),
        "started": f"{datetime.fromtimestamp(status.started):%Y-%m-%d %H:%M:%S}",
        "server": f"fedcof {status.version}",
    }
    return [(name, value) for name, value in facts.items() if value]


def _training(status: Status) -> str:
    done = status.training
    if not done:
        return ""
    accuracy = done.get("accuracy")
    told = f"round {done['number']}, {done['clients']} clients, loss {done['loss']:.4f}"
    return told if accuracy is None else f"{told}, accuracy {accuracy:.1%}"


def _first(title: str, counts: Mapping[str, int]) -> list[dict[str, object]]:
    shown = list(counts.items())
    rows: list[dict[str, object]] = [{title: k, "clients": n} for k, n in shown[:_SHOWN]]
    if len(shown) > _SHOWN:
        rows.append({title: f"and {len(shown) - _SHOWN:,} more", "clients": None})
    return rows
