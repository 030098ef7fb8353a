"""A report as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedcof.report.drawings import Drawing
from fedcof.report.names import place
from fedcof.report.sections import Report
from fedcof.report.svg import SERIES, inline_svg


def as_page(report: Report, title: str = "") -> str:
    """Return the page; its title is the report's where none is given."""
    return render(
        "page.html.j2",
        title=title or report.title,
        report=report,
        drawings={section.anchor: section.drawings for section in report.sections},
    )


def render(template: str, *, drawings: Mapping[str, Sequence[Drawing]], **content: Any) -> str:
    """Return a page from its template and the drawings of each of its sections, by its anchor."""
    environment = Environment(
        loader=PackageLoader("fedcof.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["where"] = lambda entry: place(("dataset", "backbone"), entry._asdict())
    figures = {anchor: _figures(anchor, drawn) for anchor, drawn in drawings.items()}
    return environment.get_template(template).render(figures=figures, colors=SERIES, **content)


def _figures(anchor: str, drawings: Sequence[Drawing]) -> list[dict[str, str]]:
    return [
        {
            "svg": inline_svg(drawing.figure, f"{anchor}-{number}", drawing.caption),
            "caption": drawing.caption,
            "csv": f"data:text/csv;charset=utf-8,{quote(drawing.as_csv())}",
            "file": f"{anchor}-{number}.csv",
        }
        for number, drawing in enumerate(drawings)
    ]
