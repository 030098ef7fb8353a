"""``fedcof report``: results of experiments as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcof.commands.shared import console, errors_for_people


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders that fedcof reproduce wrote.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    paper: Annotated[
        Path | None,
        typer.Option(help="Folder for the figures as PDF and the tables as LaTeX."),
    ] = None,
    title: Annotated[str, typer.Option(help="The page's title.")] = "FedCOF, reproduced",
) -> None:
    """Write one HTML page with tables and figures, ours beside the paper's."""
    from fedcof.report.page import render, write_for_paper

    with errors_for_people():
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(render(runs, title), encoding="utf-8")
        console.print(f"page: {output}")
        if paper is not None:
            written = write_for_paper(runs, paper)
            console.print(f"for a paper: {len(written)} files in {paper}")
