"""``fedcof watch``: `fedcof status`, live."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from fedcof.commands.shared import errors_for_people, redrawn
from fedcof.commands.status import RunFolder, view


def watch(
    folder: RunFolder,
    *,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Show how far a run is, live, until it ends; Ctrl-C ends only the view."""
    from fedcof.federation.status import ENDED, read_status

    with errors_for_people(), redrawn() as show:
        while True:
            found = read_status(folder)
            show(*view(found))
            if found.state in ENDED:
                break
            time.sleep(every)
        if found.state == "failed":
            raise typer.Exit(1)
