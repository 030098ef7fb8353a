"""Results of many seeds as a table, ours beside the paper's."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedcof.experiments import METRICS, Experiment, Row

METHOD_TITLES = {
    "fedncm": "FedNCM",
    "fed3r": "Fed3R",
    "fedcof": "FedCOF",
    "fedcof-oracle": "FedCOF oracle",
    "fedcof-diagonal": "FedCOF, diagonal",
    "fedcof-spherical": "FedCOF, spherical",
    "ccvr": "CCVR",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedadam": "FedAdam",
    "fedyogi": "FedYogi",
    "fedadagrad": "FedAdagrad",
    "pfpt": "PFPT",
}
"""The methods, and the strategies that may follow them."""
COLUMN_TITLES = {
    "dataset": "data set",
    "backbone": "backbone",
    "clients": "clients",
    "alpha": "α",
    "noise": "noise",
    "epsilon": "ε",
    "method": "method",
}
"""The columns of a setting, in the order in which they are shown."""


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

    def titles(self) -> list[str]:
        """Return the titles of all columns: the setting's, then ours and the paper's."""
        titles = [COLUMN_TITLES[column] for column in self.columns]
        for metric in self.metrics:
            titles.append(METRICS[metric].title)
            if metric in self.with_paper:
                titles += ["paper", "difference"]
        return titles

    def cells(self, line: Line) -> list[str]:
        """Return a line under `titles`."""
        cells = [line.shown[column] for column in self.columns]
        for metric in self.metrics:
            value = line.values[metric]
            cells.append(number(value.mean, metric, value.deviation))
            if metric in self.with_paper:
                cells.append(number(value.paper, metric, value.paper_deviation))
                cells.append(signed(value.difference, metric))
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
    common = ", ".join(
        words(column, settings[0])
        for column in COLUMN_TITLES
        if column not in columns and words(column, settings[0])
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
    return Table(columns, common, experiment.metrics, with_paper, lines)


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
            details = [f"{name} {settings[index].get(name)}" for name in differing]
            shown[index] = cells | {"method": ", ".join([cells["method"], *details])}
    return shown


def _value(experiment: Experiment, metric: str, rows: Sequence[Row]) -> Value:
    unit = METRICS[metric].unit
    values = [row.measured[metric] / unit for row in rows]
    cells = (paper.find(rows[0].setting) for paper in experiment.paper if paper.metric == metric)
    paper = next((cell for cell in cells if cell is not None), (None, None))
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Value(statistics.fmean(values), deviation, *paper)


def show(column: str, setting: Mapping[str, Any]) -> str:
    """Return the value of a setting's column as text."""
    value = setting.get(column)
    if column == "method":
        return method_title(setting)
    if value is None:
        return "by " + setting["column"] if column == "clients" and setting.get("column") else "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def words(column: str, setting: Mapping[str, Any]) -> str:
    """Return the value of a setting's column, with the column's name where it needs one."""
    shown = show(column, setting)
    if shown == "–":
        return ""
    if column == "clients":
        if setting.get("clients") is None:
            return f"clients {shown}"
        return "1 client" if shown == "1" else f"{shown} clients"
    if column == "means_per_class":
        return f"{shown} means a client"
    symbols = {"alpha": "α", "shrinkage": "γ", "epsilon": "ε"}
    return f"{symbols[column]} {shown}" if column in symbols else shown


def method_title(setting: Mapping[str, Any]) -> str:
    """Return a method's name with its settings that tables vary."""
    title = label_title(setting["method"])
    details = []
    if (gamma := setting.get("shrinkage")) is not None:
        details.append(f"γ {gamma:g}")
    if setting.get("scatter") not in (None, "within"):
        details.append({"between": "G_btw", "both": "G_btw + G_with"}[setting["scatter"]])
    if (means := setting.get("means_per_class") or 1) > 1:
        details.append(f"{means} means")
    return ", ".join([title, *details])


def label_title(label: str) -> str:
    """Return the name of a method, or of a run of training by where it starts and what it trains.

    Examples
    --------
    >>> label_title("fedcof+fedavg-lp")
    'FedCOF + FedAvg-LP'
    """
    run, bracket, remark = label.partition(" (")
    steps = []
    for step in run.split("+"):
        name, _, suffix = step.rpartition("-")
        trains = suffix in ("lp", "pt")  # linear probing, prompt tuning
        method = name if trains else step
        title = METHOD_TITLES.get(method, method)
        steps.append(f"{title}-{suffix.upper()}" if trains else title)
    return " + ".join(steps) + bracket + remark


def number(value: float | None, metric: str, deviation: float | None = None) -> str:
    """Return a number of a metric, ``mean ± deviation`` where there is one."""
    if value is None:
        return "–"
    text = format(value, METRICS[metric].format)
    if deviation is None:
        return text
    return f"{text} ± {format(deviation, METRICS[metric].format)}"


def signed(value: float | None, metric: str) -> str:
    """Return a difference with its sign, a true minus included."""
    if value is None:
        return "–"
    return format(value, "+" + METRICS[metric].format).replace("-", "\N{MINUS SIGN}")
