"""Tables for a paper, in LaTeX with booktabs and graphicx, no wider than their column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from fedcof.experiments import Experiment
from fedcof.report.sheets import Sheet

_SPECIAL = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "–": "--",
    "…": r"\dots{}",
    "\N{MINUS SIGN}": "$-$",
    "α": r"$\alpha$",
    "γ": r"$\gamma$",
    "ε": r"$\epsilon$",
    "λ": r"$\lambda$",
    "²": r"$^2$",
}
_COLUMN_POINTS = 345.0
"""A column of an article of one column; a wider table is cut between two metrics."""
_CHARACTER_POINTS, _SPACE_POINTS = 4.6, 8.0
"""About what a character takes in ``\\small``, and what stands between two columns."""
_LINES = 42.0
"""More lines are more than a page."""


def as_latex(experiment: Experiment, sheets: Sequence[Sheet]) -> str:
    """Return ``table`` environments with what an experiment's sheets show.

    Sheets with the same columns share a table, each under its caption, as far as a page goes. What
    is still wider than the column, as in papers of two columns, is scaled down to it.
    """
    together = [list(alike) for _, alike in groupby(sheets, key=_columns)]
    floats = [
        (page, columns) for alike in together for columns in _cut(alike) for page in _pages(alike)
    ]
    tables = [_float(experiment, number, *part) for number, part in enumerate(floats, start=1)]
    return "% needs \\usepackage{booktabs} and \\usepackage{graphicx}\n" + "\n".join(tables)


def _columns(sheet: Sheet) -> tuple[object, ...]:
    return sheet.titles, sheet.labels, sheet.groups


def _pages(alike: list[Sheet]) -> Iterator[list[Sheet]]:
    """Yield as many sheets as go on a page, and at least one."""
    page: list[Sheet] = []
    for sheet in alike:
        if page and sum(map(_lines, (*page, sheet))) > _LINES:
            yield page
            page = []
        page.append(sheet)
    yield page


def _lines(sheet: Sheet) -> float:
    """Return about how many lines a sheet takes: rows, caption, space between groups."""
    groups = len({row[0] for row in sheet.rows}) if sheet.labels > 1 else 1
    return len(sheet.rows) + 2 + groups / 2


def _float(experiment: Experiment, number: int, sheets: list[Sheet], columns: list[int]) -> str:
    label = experiment.name if number == 1 else f"{experiment.name}-{number}"
    caption = experiment.title
    if len(sheets) == 1 and sheets[0].caption:
        caption += f" ({sheets[0].caption})"
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            r"\small",
            r"\setlength{\tabcolsep}{4pt}",
            rf"\caption{{{_escape(caption)}.}}",
            rf"\label{{tab:ours-{label}}}",
            _tabular(sheets, columns),
            r"\end{table}",
            "",
        ]
    )


def _cut(sheets: list[Sheet]) -> Iterator[list[int]]:
    """Yield the columns of each table into which a wide one is cut, the rows' names first."""
    first = sheets[0]
    widths = [
        _SPACE_POINTS
        + _CHARACTER_POINTS
        * max(len(cells[column]) for cells in (first.titles, *(r for s in sheets for r in s.rows)))
        for column in range(len(first.titles))
    ]
    names = list(range(first.labels))
    taken, position = names.copy(), first.labels
    for width in first.groups:
        group = list(range(position, position + width))
        position += width
        if taken != names and sum(widths[c] for c in (*taken, *group)) > _COLUMN_POINTS:
            yield taken
            taken = names.copy()
        taken += group
    yield taken


def _tabular(sheets: list[Sheet], columns: list[int]) -> str:
    first = sheets[0]
    names = first.labels
    lines = [
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{'l' * names}{'r' * (len(columns) - names)}}}",
        r"\toprule",
        _row([first.titles[column] for column in columns]),
    ]
    for sheet in sheets:
        lines.append(r"\midrule")
        if len(sheets) > 1:
            title = rf"\textit{{{_escape(sheet.caption)}}}"
            lines += [rf"\multicolumn{{{len(columns)}}}{{l}}{{{title}}} \\", r"\addlinespace"]
        before = ""
        for cells in sheet.rows:
            if names > 1 and before not in ("", cells[0]):
                lines.append(r"\addlinespace")
            shown = [cells[column] for column in columns]
            if names > 1 and before == cells[0]:
                shown[0] = ""  # said in the row above
            before = cells[0]
            lines.append(_row(shown))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}"])


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(_escape, cells)) + r" \\"


def _escape(text: str) -> str:
    return "".join(_SPECIAL.get(character, character) for character in text)
