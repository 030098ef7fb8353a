"""``fedcof report``: results of experiments, or the run of a federation, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcof.commands.options import out_folder
from fedcof.commands.shared import errors_for_people, say


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders that fedcof reproduce wrote, or one run folder.")
    ],
    *,
    out: Annotated[Path, out_folder("report.html or results.md")] = Path(),
    markdown: Annotated[
        bool,
        typer.Option(
            "--markdown", help="Write the tables as Markdown, results.md, in place of the page."
        ),
    ] = False,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="Also write figures as PDF, their data as CSV and tables as LaTeX, into the "
            "folder paper.",
        ),
    ] = False,
    title: Annotated[
        str, typer.Option(help="The title. Default: the paper, or the names of your data.")
    ] = "",
) -> None:
    """Write one HTML page: experiments beside the paper's, or the run of a federation."""
    from fedcof.report.markdown import as_markdown
    from fedcof.report.page import as_page
    from fedcof.report.paper import write_for_paper
    from fedcof.report.run import as_run_page, gather_run, is_run
    from fedcof.report.sections import gather

    with errors_for_people():
        if len(runs) == 1 and is_run(runs[0]):
            if markdown or paper:
                raise ValueError("--markdown and --paper are for experiments, not for a run folder")
            out.mkdir(parents=True, exist_ok=True)
            page = out / "report.html"
            page.write_text(as_run_page(gather_run(runs[0]), title), encoding="utf-8")
            say(f"report: {page}")
            return
        found = gather(runs)
        out.mkdir(parents=True, exist_ok=True)
        written = out / ("results.md" if markdown else "report.html")
        text = as_markdown(found, title) if markdown else as_page(found, title)
        written.write_text(text, encoding="utf-8")
        say(f"report: {written}")
        if paper:
            files = write_for_paper(found, out / "paper")
            say(f"for a paper: {len(files)} files in {out / 'paper'}")
