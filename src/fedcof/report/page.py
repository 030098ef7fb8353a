"""A report as one page that needs nothing else."""

from __future__ import annotations

from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedcof.report.names import place
from fedcof.report.sections import Report, Section
from fedcof.report.svg import SERIES, inline_svg


def as_page(report: Report, title: str = "") -> str:
    """Return the page; its title is the report's where none is given."""
    environment = Environment(
        loader=PackageLoader("fedcof.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["where"] = lambda entry: place(("dataset", "backbone"), entry._asdict())
    return environment.get_template("page.html.j2").render(
        title=title or report.title,
        report=report,
        figures={section.anchor: _figures(section) for section in report.sections},
        colors=SERIES,
    )


def _figures(section: Section) -> list[dict[str, str]]:
    return [
        {
            "svg": inline_svg(drawing.figure, f"{section.anchor}-{number}", drawing.caption),
            "caption": drawing.caption,
            "csv": f"data:text/csv;charset=utf-8,{quote(drawing.as_csv())}",
            "file": f"{section.anchor}-{number}.csv",
        }
        for number, drawing in enumerate(section.drawings)
    ]
