"""A report as files for a paper: figures as PDF, their numbers as CSV, tables as LaTeX."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fedcof.report.figures import save_pdf
from fedcof.report.latex import as_latex
from fedcof.report.sections import Report, Section


def write_for_paper(report: Report, target: Path) -> list[Path]:
    """Write every figure and every table, and return the files.

    Short runs are left out: nothing in them is for a paper.
    """
    target.mkdir(parents=True, exist_ok=True)
    whole = [s for s in report.sections if s.experiment.short_rounds is None]
    return [path for section in whole for path in _write(section, target)]


def _write(section: Section, target: Path) -> Iterator[Path]:
    if section.blocks:
        path = target / f"{section.name}.tex"
        shown = [sheet for block in section.blocks for sheet in block.sheets]
        path.write_text(as_latex(section.experiment, shown), encoding="utf-8")
        yield path
    for number, drawing in enumerate(section.drawings):
        path = target / f"{section.name}-{number}.pdf"
        save_pdf(drawing.figure, path)
        yield path
        path = path.with_suffix(".csv")
        path.write_text(drawing.as_csv(), encoding="utf-8")
        yield path
