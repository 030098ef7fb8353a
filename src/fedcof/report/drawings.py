"""Which figures an experiment's table becomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from fedcof.experiments import METRICS, Experiment
from fedcof.report.figures import Curve, Point, accuracy_vs_communication, curves, rounds
from fedcof.report.tables import COLUMN_TITLES, Line, Table, show, words

AXIS_TITLES = {
    "clients": "clients",
    "alpha": "Dirichlet α",
    "shrinkage": "shrinkage γ",
    "epsilon": "noise parameter ε",
    "means_per_class": "means a client",
}
_LOG = ("alpha", "shrinkage")
_PERCENT = METRICS["accuracy"].unit


class Drawing(NamedTuple):
    """A figure, and what it says in words."""

    figure: Figure
    caption: str


def draw(experiment: Experiment, table: Table) -> list[Drawing]:
    """Return the figures of an experiment, one a panel."""
    makers = {"communication": _communication, "curves": _curves, "rounds": _rounds}
    if experiment.figure is None:
        return []
    return list(makers[experiment.figure](experiment, table))


def _communication(experiment: Experiment, table: Table) -> Iterator[Drawing]:
    for place, lines in _panels(table, ("dataset", "backbone", "clients", "alpha")):
        points = [_point(line) for line in lines]
        yield Drawing(
            accuracy_vs_communication(points),
            f"Accuracy against communication: {place}. "
            + ("Hollow: the paper. " if any(point.paper for point in points) else "")
            + f"Error bars: one standard deviation over {_seeds(lines)}.",
        )


def _point(line: Line) -> Point:
    accuracy, sent = line.values["accuracy"], line.values["formula_bytes"]
    paper = None
    if accuracy.paper is not None and sent.paper is not None:
        paper = (sent.paper, accuracy.paper)
    return Point(line.shown["method"], sent.mean, accuracy.mean, accuracy.deviation, paper)


def _curves(experiment: Experiment, table: Table) -> Iterator[Drawing]:
    x, by = experiment.x, experiment.lines
    others = [
        name
        for name in (
            "dataset",
            "backbone",
            "clients",
            "alpha",
            "method",
            "shrinkage",
            "means_per_class",
        )
        if name not in (x, by) and _varies(table, name)
    ]
    for place, lines in _panels(table, ("dataset", "backbone", *others)):
        drawn = [line for line in lines if line.setting.get(x) is not None]
        by_line = _group(drawn, lambda line: line.setting.get(by))
        yield Drawing(
            curves([_curve(group, x, by) for group in by_line], AXIS_TITLES[x], log=x in _LOG),
            f"{experiment.title}: {place}. Bands: one standard deviation over {_seeds(lines)}."
            + (" Hollow: the paper." if any(_has_paper(line) for line in lines) else ""),
        )


def _curve(lines: Sequence[Line], x: str, by: str) -> Curve:
    ordered = sorted(lines, key=lambda line: line.setting[x])
    values = [line.values["accuracy"] for line in ordered]
    title = AXIS_TITLES.get(by, COLUMN_TITLES.get(by, by))
    shown = show(by, ordered[0].setting)
    return Curve(
        shown if by in ("dataset", "noise") else f"{title}: {shown}",
        [line.setting[x] for line in ordered],
        [value.mean for value in values],
        [value.deviation or 0.0 for value in values],
        {
            line.setting[x]: value.paper
            for line, value in zip(ordered, values, strict=True)
            if value.paper is not None
        },
    )


def _rounds(experiment: Experiment, table: Table) -> Iterator[Drawing]:
    for place, lines in _panels(table, ("dataset", "backbone", "clients", "alpha")):
        yield Drawing(
            rounds([_progress(line) for line in lines]),
            f"Accuracy after every round of partial participation: {place}. Bands: one standard "
            f"deviation over {_seeds(lines)}.",
        )


def _progress(line: Line) -> Curve:
    """Average the curves of all seeds; a shorter one stays at its last value."""
    runs = [[after["accuracy"] / _PERCENT for after in row.measured["rounds"]] for row in line.rows]
    longest = max(map(len, runs))
    padded = np.array([run + [run[-1]] * (longest - len(run)) for run in runs])
    deviation = padded.std(axis=0, ddof=1) if len(runs) > 1 else np.zeros(longest)
    return Curve(
        line.shown["method"],
        list(range(1, longest + 1)),
        padded.mean(axis=0).tolist(),
        deviation.tolist(),
    )


def _panels(table: Table, names: Sequence[str]) -> Iterator[tuple[str, list[Line]]]:
    """Yield the lines that have the same values under some names, and these values in words."""
    for lines in _group(table.lines, lambda line: [line.setting.get(name) for name in names]):
        setting = lines[0].setting
        yield ", ".join(words(name, setting) for name in names if words(name, setting)), lines


def _varies(table: Table, name: str) -> bool:
    return len({line.setting.get(name) for line in table.lines}) > 1


def _group(lines: Sequence[Line], key: Any) -> list[list[Line]]:
    def text(line: Line) -> str:
        return repr(key(line))

    order = {text(line): position for position, line in reversed(list(enumerate(lines)))}
    ordered = sorted(lines, key=lambda line: order[text(line)])
    return [list(group) for _, group in groupby(ordered, key=text)]


def _has_paper(line: Line) -> bool:
    return line.values["accuracy"].paper is not None


def _seeds(lines: Sequence[Line]) -> str:
    number = max(len(line.rows) for line in lines)
    return f"{number} seed" if number == 1 else f"{number} seeds"
