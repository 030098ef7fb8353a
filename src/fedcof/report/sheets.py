"""A table as text, in the form in which it is read: a list, or a grid of two settings.

The page, LaTeX and Markdown write what stands here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fedcof.experiments import METRICS, Experiment
from fedcof.report.names import AXIS_TITLES, COLUMN_TITLES, show, words
from fedcof.report.rounds import average
from fedcof.report.tables import OF_CLIENTS, Line, Table, ours, papers

_ROUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""After which the accuracy is listed, beside the last; none that is near the last."""


@dataclass(frozen=True)
class Sheet:
    """A table as text.

    Parameters
    ----------
    caption : str
        What all of it is of.
    titles : tuple of str
        Of the columns.
    labels : int
        So many columns on the left name the row.
    groups : tuple of int
        How many of the other columns belong together, from the left: ours, the paper's and the
        difference of one metric.
    rows : list of tuple of str
    with_paper : bool
        Whether numbers of the paper stand in it.
    """

    caption: str
    titles: tuple[str, ...]
    labels: int
    groups: tuple[int, ...]
    rows: list[tuple[str, ...]]
    with_paper: bool

    @property
    def ours(self) -> frozenset[int]:
        """The positions of the columns that hold our numbers: the first of every group."""
        starts, position = set(), self.labels
        for width in self.groups:
            starts.add(position)
            position += width
        return frozenset(starts)


def sheets(experiment: Experiment, table: Table) -> Iterator[Sheet]:
    """Yield a table as it is read.

    What an experiment draws as curves is a grid a metric, with the values of the lines across, if
    there are several; everything else is a list with a row a setting.
    """
    if experiment.figure == "curves" and _is_grid(experiment, table):
        for metric in table.metrics:
            yield _grid(experiment, table, metric)
    else:
        yield _list(table)
    if experiment.figure == "rounds":
        yield _rounds(table)


def _is_grid(experiment: Experiment, table: Table) -> bool:
    """Whether there are several values across, and a cell of its own for every line."""
    down = _down(experiment, table)
    cells = {
        (_row(experiment, line, down), words(experiment.lines, line.setting))
        for line in table.lines
    }
    return len({across for _, across in cells}) > 1 and len(cells) == len(table.lines)


def _list(table: Table) -> Sheet:
    return Sheet(
        _caption(table.common, table.seeds),
        tuple(table.titles()),
        len(table.columns),
        tuple(3 if metric in table.with_paper else 1 for metric in table.metrics),
        [tuple(table.cells(line)) for line in table.lines],
        bool(table.with_paper),
    )


def _rounds(table: Table) -> Sheet:
    """Return the accuracy after some rounds, the last included."""
    runs = [average(line.rows) for line in table.lines]
    last = max(after.round for run in runs for after in run.rounds)
    shown = [*(number for number in _ROUNDS if number < 0.9 * last), last]
    rows = []
    for line, run in zip(table.lines, runs, strict=True):
        at = {after.round: f"{after.accuracy:.1f}" for after in run.rounds}
        names = [line.shown[column] for column in table.columns]
        rows.append((*names, *(at.get(number, "–") for number in shown)))
    return Sheet(
        _caption("accuracy (%) after the round", table.common, table.seeds),
        (*(COLUMN_TITLES[column] for column in table.columns), *map(str, shown)),
        len(table.columns),
        (1,) * len(shown),
        rows,
        with_paper=False,
    )


def _grid(experiment: Experiment, table: Table, metric: str) -> Sheet:
    """Return one metric, with the x axis of the figure down and its lines across."""
    down = _down(experiment, table)
    cells = _cells(experiment, table, metric, down)
    if "method" in down and metric in OF_CLIENTS:
        down_alone = [name for name in down if name != "method"]
        alike = _cells(experiment, table, metric, down_alone)
        if all(len(texts) == 1 for row in alike.values() for texts in row.values()):
            down, cells = down_alone, alike  # the method is no matter
    heads = dict.fromkeys(words(experiment.lines, line.setting) for line in table.lines)
    firsts = list(dict.fromkeys(row[0] for row in cells))  # the rows of one method stand together
    return Sheet(
        _caption(
            METRICS[metric].title,
            table.common,
            table.seeds,
            "in brackets the paper" if metric in table.with_paper else "",
        ),
        (*(AXIS_TITLES.get(name, COLUMN_TITLES.get(name, name)) for name in down), *heads),
        len(down),
        (1,) * len(heads),
        [
            (*row, *(next(iter(cells[row].get(head, ["–"]))) for head in heads))
            for row in sorted(cells, key=lambda row: firsts.index(row[0]))
        ],
        metric in table.with_paper,
    )


def _cells(
    experiment: Experiment, table: Table, metric: str, down: Sequence[str]
) -> dict[tuple[str, ...], dict[str, set[str]]]:
    """Return the texts in every cell, by what names its row and what stands across."""
    cells: dict[tuple[str, ...], dict[str, set[str]]] = {}
    for line in table.lines:
        row = cells.setdefault(_row(experiment, line, down), {})
        row.setdefault(words(experiment.lines, line.setting), set()).add(_cell(table, line, metric))
    return cells


def _down(experiment: Experiment, table: Table) -> list[str]:
    """Return the columns that name the rows of a grid, the x axis last."""
    others = [name for name in table.columns if name not in (experiment.lines, experiment.x)]
    methods = {_row(experiment, line, ["method"]) for line in table.lines}
    if len(methods) == 1:
        others.remove("method")
    return [*sorted(others, key="method".__ne__), experiment.x]


def _row(experiment: Experiment, line: Line, down: Sequence[str]) -> tuple[str, ...]:
    """Return what names a row; the method goes without what stands down and across."""
    apart = (experiment.x, experiment.lines)
    method = {name: value for name, value in line.setting.items() if name not in apart}
    return tuple(show(name, method if name == "method" else line.setting) for name in down)


def _cell(table: Table, line: Line, metric: str) -> str:
    value = line.values.get(metric)
    if metric not in table.with_paper:
        return ours(value, metric)
    return f"{ours(value, metric)} ({papers(value, metric)})"


def _caption(*parts: str) -> str:
    return ", ".join(filter(None, parts))
