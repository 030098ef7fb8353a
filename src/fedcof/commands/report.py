"""``fedcof report``: results of experiments as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcof.commands.options import out_folder
from fedcof.commands.shared import console, errors_for_people


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders that fedcof reproduce wrote.")],
    *,
    out: Annotated[Path, out_folder("the page, report.html")] = Path(),
    paper: Annotated[
        bool,
        typer.Option(
            "--paper", help="Also write figures as PDF and tables as LaTeX, into its folder paper."
        ),
    ] = False,
    title: Annotated[str, typer.Option(help="The page's title.")] = "FedCOF, reproduced",
) -> None:
    """Write one HTML page with tables and figures, ours beside the paper's."""
    from fedcof.report.page import render, write_for_paper

    with errors_for_people():
        page = out / "report.html"
        text = render(runs, title)
        out.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
        console.print(f"page: {page}")
        if paper:
            written = write_for_paper(runs, out / "paper")
            console.print(f"for a paper: {len(written)} files in {out / 'paper'}")
