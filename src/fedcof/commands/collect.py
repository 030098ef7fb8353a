"""``fedcof collect``: summaries of many sites into a data set of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcof.commands.options import out_folder
from fedcof.commands.shared import EXIT_LEFT_OUT, errors_for_people, note, say

if TYPE_CHECKING:
    from fedcof.summaries import Summary

_MB = 1_000_000


def collect(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Files that `fedcof summarize` and `collect` wrote, folders of such files, or run "
            "folders of federations."
        ),
    ],
    *,
    out: Annotated[Path, out_folder("the data set; one that is there gets one more file")],
    coding: Annotated[
        str, typer.Option(help="How the numbers stand there: float32, float16, int8 or int4.")
    ] = "float32",
) -> None:
    """Add summaries to a data set, a Parquet file with a row a mean, that solve streams."""
    from fedcof.commands.withdraw import gone_from
    from fedcof.errors import SummaryError, reason_of
    from fedcof.federation import serving
    from fedcof.progress import progress_bar
    from fedcof.scale.dataset import DataSet
    from fedcof.scale.solving import Aside
    from fedcof.scale.writing import append

    with errors_for_people("nothing is added, and the same command begins anew"):
        runs = [source for source in sources if (source / serving.STORE).exists()]
        data = DataSet.open(source for source in sources if source not in runs).without_misfits()
        set_aside = list(data.set_aside)
        if not data.files and not runs:
            raise ValueError("no file holds a summary, so nothing is added")
        gone = gone_from(data)
        set_aside += [Aside(str(of), f"client {n!r} has withdrawn", n) for n, of in gone.items()]
        with progress_bar("Collecting", -(-data.size // _MB), unit="MB") as advance:

            def summaries() -> Iterator[Summary]:
                done = 0
                for piece in (piece for file in data.files for piece in file.pieces):
                    for read in piece.read(counts_alone=False, left_out=frozenset(gone)):
                        set_aside.extend(read.set_aside)
                        for part in read.parts:
                            try:
                                own = part.apart()
                            except SummaryError as error:  # a sum, which has no row of its own
                                set_aside.append(Aside(piece.place, reason_of(error)))
                            else:
                                yield from own
                    advance(-(-(done + piece.size) // _MB) - -(-done // _MB))
                    done += piece.size
                for folder in runs:
                    with serving.opened(serving.Settings.kept(folder)) as store:
                        for name, reason in store.misfits().items():
                            set_aside.append(Aside(str(folder), reason, name))
                        yield from store.summaries()

            path = append(out, summaries(), coding=coding)
        for aside in set_aside:
            note(f"set aside {aside}")
        if path is None:
            raise ValueError("no summary is left, so nothing is added")
        say(f"{path}: written; {len(set_aside):,} set aside")
        if set_aside:
            raise typer.Exit(EXIT_LEFT_OUT)
