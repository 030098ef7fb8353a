"""Results of many seeds as a table, ours beside the paper's."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedcof.experiments import METRICS, Experiment, Row
from fedcof.report.names import COLUMN_TITLES, place, seeds, show, words

OF_CLIENTS = ("means_received", "num_means")
"""Metrics of what the clients send, whatever a server does with it."""


@dataclass(frozen=True)
class Value:
    """A measured number over seeds and the paper's, in the metric's unit.

    Parameters
    ----------
    mean, deviation : float
        Over the seeds; the deviation is the sample's, None for one seed.
    paper, paper_deviation : float or None
        The paper's.
    """

    mean: float
    deviation: float | None
    paper: float | None
    paper_deviation: float | None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.paper is None else self.mean - self.paper

    @property
    def ratio(self) -> float | None:
        """Ours in multiples of the paper's."""
        return None if not self.paper else self.mean / self.paper


@dataclass(frozen=True)
class Line:
    """One setting: its columns, as they are and as they are shown, and what was measured."""

    setting: Mapping[str, Any]
    shown: Mapping[str, str]
    values: Mapping[str, Value]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Table:
    """The lines of an experiment.

    Parameters
    ----------
    columns : tuple of str
        Keys of `COLUMN_TITLES`: the setting's columns that differ between lines.
    common : str
        What all lines have in common, in words.
    metrics : tuple of str
        Keys of `METRICS`.
    with_paper : frozenset of str
        The metrics for which the paper has a number here.
    lines : list of Line
    """

    columns: tuple[str, ...]
    common: str
    metrics: tuple[str, ...]
    with_paper: frozenset[str]
    lines: list[Line]

    @property
    def seeds(self) -> str:
        """Over how many seeds the numbers are, in words."""
        return seeds(len(line.rows) for line in self.lines)

    def titles(self) -> list[str]:
        """Return the titles of all columns: the setting's, then ours and the paper's."""
        titles = [COLUMN_TITLES[column] for column in self.columns]
        for metric in self.metrics:
            titles.append(METRICS[metric].title)
            if metric in self.with_paper:
                titles += ["paper", METRICS[metric].compared_by]
        return titles

    def cells(self, line: Line) -> list[str]:
        """Return a line under `titles`."""
        cells = [line.shown[column] for column in self.columns]
        for metric in self.metrics:
            value = line.values.get(metric)
            cells.append(ours(value, metric))
            if metric in self.with_paper:
                cells += [papers(value, metric), compared(value, metric)]
        return cells


def tabulate(experiment: Experiment, rows: Sequence[Row]) -> Table:
    """Group the rows of an experiment by setting and set them beside the paper's numbers."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(json.dumps(row.setting, sort_keys=True), []).append(row)
    settings = [group[0].setting for group in groups.values()]
    columns = tuple(
        column
        for column in COLUMN_TITLES
        if column == "method" or len({setting.get(column) for setting in settings}) > 1
    )
    lines = [
        Line(
            setting=setting,
            shown=shown,
            values={
                metric: _value(experiment, metric, group)
                for metric in experiment.metrics
                if metric in group[0].measured
            },
            rows=group,
        )
        for setting, shown, group in zip(
            settings, _shown(settings, columns), groups.values(), strict=True
        )
    ]
    with_paper = frozenset(
        metric for line in lines for metric, value in line.values.items() if value.paper is not None
    )
    return Table(columns, _common(settings, columns), experiment.metrics, with_paper, lines)


def by_place(experiment: Experiment, rows: Sequence[Row]) -> list[Table]:
    """Return a table for every data set under every backbone."""
    places: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        places.setdefault((row.setting["dataset"], row.setting["backbone"]), []).append(row)
    return [tabulate(experiment, rows_there) for rows_there in places.values()]


def _common(settings: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return what all settings share, in words, and the participation of those that have one."""
    shared = place((column for column in COLUMN_TITLES if column not in columns), settings[0])
    rates = {setting["participation"] for setting in settings if setting.get("participation")}
    if len(rates) != 1:
        return shared
    return ", ".join(filter(None, (shared, words("participation", {"participation": rates.pop()}))))


def _shown(settings: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the cells of every line; if two lines have the same, the method says what differs."""
    shown = [{column: show(column, setting) for column in columns} for setting in settings]
    for cells in shown:
        same = [index for index, other in enumerate(shown) if other == cells]
        names = dict.fromkeys(name for index in same for name in settings[index])
        differing = [
            name for name in names if len({settings[index].get(name) for index in same}) > 1
        ]
        for index in same if differing else ():
            # a row leaves out what is at its method's default
            details = [
                f"{name} {settings[index][name]}" for name in differing if name in settings[index]
            ]
            shown[index] = cells | {"method": ", ".join([cells["method"], *details])}
    return shown


def _value(experiment: Experiment, metric: str, rows: Sequence[Row]) -> Value:
    unit = METRICS[metric].unit
    values = [row.measured[metric] / unit for row in rows]
    cells = (paper.find(rows[0].setting) for paper in experiment.paper if paper.metric == metric)
    paper = next((cell for cell in cells if cell is not None), (None, None))
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Value(statistics.fmean(values), deviation, *paper)


def ours(value: Value | None, metric: str) -> str:
    """Return what was measured, ``mean ± deviation`` over several seeds."""
    if value is None:
        return "–"
    shown = METRICS[metric].format
    if metric in ("formula_bytes", "wire_bytes") and 0 < value.mean < 1:
        shown = ".3f"  # a small federation's bytes are no "0.0"
    if value.deviation is None:
        return format(value.mean, shown)
    return f"{format(value.mean, shown)} ± {format(value.deviation, shown)}"


def papers(value: Value | None, metric: str) -> str:
    """Return the paper's number, with its deviation where it has one."""
    if value is None or value.paper is None:
        return "–"
    text = format(value.paper, METRICS[metric].format)
    if value.paper_deviation is None:
        return text
    return f"{text} ± {format(value.paper_deviation, METRICS[metric].format)}"


def compared(value: Value | None, metric: str) -> str:
    """Return ours against the paper's: a difference with its sign, or a ratio."""
    if value is None or value.difference is None or value.ratio is None:
        return "–"
    if METRICS[metric].compared_by == "ratio":
        return f"× {value.ratio:.2g}"
    text = format(value.difference, "+" + METRICS[metric].format)
    return text.replace("-", "\N{MINUS SIGN}")
