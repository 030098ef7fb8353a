"""The tables of a report as one Markdown file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedcof.report.names import place
from fedcof.report.sections import Report, Section
from fedcof.report.sheets import Sheet

_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\|*_`<>[]"})


def as_markdown(report: Report, title: str = "") -> str:
    """Return the tables, each with the command that makes it, and what was not run."""
    return "\n\n".join(_parts(report, title or report.title)) + "\n"


def _parts(report: Report, title: str) -> Iterator[str]:
    yield f"# {_escape(title)}"
    yield _escape(report.introduction)
    yield "Written by `fedcof report RUNS --markdown`; `DATA` is the folder of the data sets."
    for section in report.sections:
        if section.blocks:
            yield from _section(section)
    not_run = [_not_run(section) for section in report.sections if section.skipped]
    if not_run:
        yield "## Not run"
        yield "Why stands on the page that `fedcof report` writes."
        yield "\n".join(not_run)
    yield f"Made from {len(report.rows):,} runs with {'; '.join(report.versions)}."


def _section(section: Section) -> Iterator[str]:
    yield f"## {_escape(section.title)}"
    if section.notes:
        yield _list(section.notes)
    for block in section.blocks:
        yield f"    {block.command}"
        for sheet in block.sheets:
            yield f"{_escape(sheet.caption)}:"
            yield _table(sheet)
        if block.findings:
            yield _list(block.findings)


def _list(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {_escape(sentence)}" for sentence in sentences)


def _table(sheet: Sheet) -> str:
    rules = ["---"] * sheet.labels + ["---:"] * (len(sheet.titles) - sheet.labels)
    return "\n".join([_row(sheet.titles), f"| {' | '.join(rules)} |", *map(_row, sheet.rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escape, cells))} |"


def _not_run(section: Section) -> str:
    places = (place(("dataset", "backbone"), entry._asdict()) for entry in section.skipped)
    return f"- {_escape(section.title)}: {_escape('; '.join(dict.fromkeys(places)))}"


def _escape(text: str) -> str:
    return text.translate(_SPECIAL)
