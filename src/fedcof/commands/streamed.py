"""``fedcof solve`` of more than fits into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcof.commands.arrived import STRICT
from fedcof.commands.shared import note, print_table, say
from fedcof.commands.withdraw import gone_from

if TYPE_CHECKING:
    from fedcof.heads import Head
    from fedcof.methods import Method
    from fedcof.scale.dataset import DataSet
    from fedcof.scale.screening import Screening
    from fedcof.scale.solving import Aside, Engine

_LONGEST = 60
"""Clients and files that are shown a line each; --json has all."""

_MB = 1_000_000


@dataclass(frozen=True, eq=False)
class Streamed:
    """A head from a data set that was streamed.

    Parameters
    ----------
    head : Head
    data : DataSet
        The files that it is made of.
    screening : Screening
    set_aside : list of Aside
    """

    head: Head
    data: DataSet
    screening: Screening
    set_aside: list[Aside]


def solve_streamed(
    method: Method[Any],
    data: DataSet,
    engine: Engine,
    accepted: Sequence[str],
    *,
    strict: bool = False,
) -> Streamed:
    """Solve in bounded memory, with a progress bar; a sample of the clients is screened first."""
    from fedcof.progress import progress_bar
    from fedcof.scale.screening import screen_sample, screened
    from fedcof.scale.solving import Aside, solve

    method.streamed()  # a method that cannot be is told at once
    data = data.without_misfits()
    if not data.files:
        _tell(data.set_aside)
        raise ValueError("no head is made: no file holds a summary that this method takes")
    gone = gone_from(data)
    screening = screen_sample(data, accepted)
    fragments = screened(data.fragments(), screening, accepted)
    left_out = gone.keys() | {aside.client_id for aside in screening.refused}
    done = 0
    with progress_bar("Solving", -(-data.size // _MB), unit="MB") as bar:

        def advance(size: int) -> None:
            nonlocal done
            passes = -(-(done + size) // data.size)  # how many there are is known in the end
            steps = -(-(done + size) // _MB) - -(-done // _MB)
            bar(steps, f"Solving, pass {passes}", total=-(-passes * data.size // _MB))
            done += size

        solved = solve(
            method,
            fragments,
            left_out=left_out,
            accepted=accepted,
            engine=engine,
            advance=advance,
        )
    aside = [Aside(str(folder), f"client {n!r} has withdrawn", n) for n, folder in gone.items()]
    set_aside = [*data.set_aside, *aside, *screening.refused, *solved.set_aside]
    if strict and set_aside:
        raise ValueError(f"{STRICT}: {set_aside[0]}")
    return Streamed(solved.head, data, screening, set_aside)


def show(outcome: Streamed, path: Path, *, as_json: bool) -> None:
    """Print what the head is made of, a line a file, and what was set aside."""
    _tell(outcome.set_aside)
    for odd in outcome.screening.odd:
        note(f"warning: {odd}")
    files = [
        {"file": str(file.path), "row groups": len(file.pieces), "rows": file.rows}
        for file in outcome.data.files
    ]
    head, provenance = outcome.head, outcome.head.provenance
    print_table(
        files[:_LONGEST],
        document={
            "head": path,
            "classes": head.classes,
            "provenance": provenance,
            "files": files,
            "screened": outcome.screening.clients,
            "set_aside": [
                {"file": one.place, "client": one.client_id, "reason": one.reason}
                for one in outcome.set_aside
            ],
            "odd": outcome.screening.odd,
        },
        as_json=as_json,
    )
    if len(files) > _LONGEST:
        say(f"and {len(files) - _LONGEST:,} more files", as_json=as_json)
    clients = 0 if provenance is None else provenance.clients
    say(
        f"{path}: {len(head.classes):,} classes of {clients:,} clients in {len(files):,} files, "
        f"{len(outcome.set_aside):,} set aside; streamed, {outcome.screening.clients:,} clients "
        "compared",
        as_json=as_json,
    )


def _tell(set_aside: Sequence[Aside]) -> None:
    for aside in set_aside[:_LONGEST]:
        note(f"set aside {aside}")
    if len(set_aside) > _LONGEST:
        note(f"and {len(set_aside) - _LONGEST:,} more; --json has all")
