"""Which figures an experiment's table becomes, and the numbers in them."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from fedcof.experiments import METRICS, Experiment
from fedcof.report import figures
from fedcof.report.figures import ACCURACY, Bars, Curve, Panel, Point, Rates
from fedcof.report.names import AXIS_TITLES, COLUMN_TITLES, method_title, place, seeds, show
from fedcof.report.rounds import Average, average
from fedcof.report.tables import OF_CLIENTS, Line, Table

_LOG = ("alpha", "privacy_loss", "shrinkage")
_DEALT = ("dataset", "backbone", "clients", "alpha", "participation")
_OF_DATA = ("dataset", "clients", "alpha")
"""What the classes of a client depend on."""
_SHOWN_ATTACKS = ("single samples", "class means", "head")


class Drawing(NamedTuple):
    """A figure, what it says in words, and the numbers in it."""

    figure: Figure
    caption: str
    data: Sequence[Mapping[str, Any]]

    def as_csv(self) -> str:
        """Return the numbers as CSV, a line a mark; a column of which nothing is known is left out.

        So one seed has no deviations, and one's own data no numbers of the paper.
        """
        known = [{name: value for name, value in row.items() if _known(value)} for row in self.data]
        columns = [name for name in self.data[0] if any(name in row for row in known)]
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(known)
        return text.getvalue()


def draw(experiment: Experiment, table: Table) -> list[Drawing]:
    """Return the figures of an experiment."""
    makers = {
        "audit": _audit,
        "communication": _communication,
        "curves": _curves,
        "frontier": _frontier,
        "noisy-counts": _noisy_counts,
        "rounds": _rounds,
    }
    if experiment.figure is None:
        return []
    return list(makers[experiment.figure](experiment, table))


def draw_clients(counts: Mapping[str, Mapping[str, int]], shown: str) -> Drawing:
    """Return the figure of who holds what; ``shown`` says who of where."""
    data = [
        {"client": client, "class": name, "samples": count}
        for client, held in counts.items()
        for name, count in held.items()
    ]
    return Drawing(figures.class_histograms(counts), f"What {shown} hold, seed 0.", data)


def _communication(experiment: Experiment, table: Table) -> Iterator[Drawing]:
    for where, lines in _panels(table, _DEALT):
        points = [_point(line) for line in lines]
        yield Drawing(
            figures.accuracy_vs_communication(points),
            _caption(
                f"Accuracy against communication: {where}",
                any(point.paper for point in points) and "Hollow: the paper",
                _deviation("Error bars", lines),
            ),
            [
                {
                    "method": point.label,
                    "sent_mb": point.megabytes,
                    "accuracy": point.accuracy,
                    "deviation": point.deviation,
                    "paper_sent_mb": point.paper and point.paper[0],
                    "paper_accuracy": point.paper and point.paper[1],
                }
                for point in points
            ],
        )


def _point(line: Line) -> Point:
    accuracy, sent = line.values["accuracy"], line.values["formula_bytes"]
    paper = None
    if accuracy.paper is not None and sent.paper is not None:
        paper = (sent.paper, accuracy.paper)
    label, method = line.shown["method"], line.setting["method"]
    return Point(label, sent.mean, accuracy.mean, accuracy.deviation, paper, method)


def _frontier(experiment: Experiment, table: Table) -> Iterator[Drawing]:
    """Yield a figure a backbone, with a panel for every way to deal a data set."""
    for where, lines in _panels(table, ("backbone",)):
        panels = [
            Panel(place(("dataset", "clients", "alpha"), there[0].setting), _wire_points(there))
            for there in _group(lines, ("dataset", "clients", "alpha"))
        ]
        yield Drawing(
            figures.frontier(panels),
            _caption(
                f"{experiment.title}: {where}",
                "Stairs: the best accuracy for so many bytes",
                _deviation("Error bars", lines),
            ),
            [
                {
                    "setting": panel.title,
                    "method": point.label,
                    "wire_mb": point.megabytes,
                    "accuracy": point.accuracy,
                    "deviation": point.deviation,
                }
                for panel in panels
                for point in panel.points
            ],
        )


def _wire_points(lines: Sequence[Line]) -> list[Point]:
    """Return the methods' places; those of a method with several budgets have one name."""
    points = []
    for line in lines:
        accuracy, sent = line.values["accuracy"], line.values["wire_bytes"]
        budgets = line.setting.get("budget") is not None
        label = method_title({**line.setting, "budget": None}) if budgets else line.shown["method"]
        points.append(
            Point(label, sent.mean, accuracy.mean, accuracy.deviation, None, line.setting["method"])
        )
    return points


def _curves(experiment: Experiment, table: Table) -> Iterator[Drawing]:
    """Yield a figure a metric for every method, and one for all where the method is no matter."""
    x, by = experiment.x, experiment.lines
    drawn = [line for line in table.lines if line.setting.get(x) is not None]
    names = dict.fromkeys(name for line in drawn for name in line.setting)
    for metric in table.metrics:
        columns = (*_DEALT, "means_per_class") if metric in OF_CLIENTS else tuple(names)
        for lines in _group(drawn, [name for name in columns if name not in (x, by)]):
            setting = {name: lines[0].setting[name] for name in lines[0].setting.keys() - {x, by}}
            where = place(_DEALT if metric in OF_CLIENTS else (*_DEALT, "method", "lie"), setting)
            alike = [name for name in columns if name not in (x, by)]
            without = [
                line
                for line in table.lines
                if line.setting.get(x) is None
                and all(line.setting.get(n) == lines[0].setting.get(n) for n in alike)
            ]
            yield _curve_drawing(experiment, metric, lines, where, without)


def _curve_drawing(
    experiment: Experiment,
    metric: str,
    lines: Sequence[Line],
    where: str,
    without: Sequence[Line],
) -> Drawing:
    """Return the figure of some lines, and the level of one that has no value on the x axis."""
    x, by = experiment.x, experiment.lines
    groups = _group(lines, [by])
    drawn = [_curve(group, x, by, metric) for group in groups]
    y_title = ACCURACY if metric == "accuracy" else METRICS[metric].title
    levels = {f"no {COLUMN_TITLES.get(by, by)}": line.values[metric].mean for line in without[:1]}
    shown = "" if metric == "accuracy" else f" ({y_title})"
    return Drawing(
        figures.curves(drawn, AXIS_TITLES[x], y_title, log=x in _LOG, levels=levels),
        _caption(
            f"{experiment.title}{shown}: {where}",
            any(curve.paper for curve in drawn) and "Hollow: the paper",
            _deviation("Bands", lines),
        ),
        [
            {
                by: group[0].setting.get(by),
                x: at,
                metric: mean,
                "deviation": deviation,
                "paper": curve.paper.get(at),
            }
            for group, curve in zip(groups, drawn, strict=True)
            for at, mean, deviation in zip(curve.x, curve.mean, curve.deviation, strict=True)
        ]
        + [{by: label, metric: level} for label, level in levels.items()],
    )


def _curve(lines: Sequence[Line], x: str, by: str, metric: str) -> Curve:
    at = {line.setting[x]: line.values[metric] for line in lines}
    places = sorted(at)
    shown = show(by, lines[0].setting)
    title = AXIS_TITLES.get(by, COLUMN_TITLES.get(by, by))
    return Curve(
        shown if by in ("dataset", "noise", "privacy") else f"{title}: {shown}",
        places,
        [at[each].mean for each in places],
        [math.nan if (d := at[each].deviation) is None else d for each in places],
        {each: paper for each in places if (paper := at[each].paper) is not None},
    )


def _audit(experiment: Experiment, table: Table) -> Iterator[Drawing]:
    """Yield what each attack finds, a panel an attack, and what is measured against what is stated.

    The rates are those of the first seed.
    """
    for where, lines in _panels(table, _DEALT):
        panels = [
            Rates(
                _attack(there[0]),
                {_protection(line): line.rows[0].measured["roc"] for line in there},
            )
            for there in _group(lines, ("attack", "method"))
            if there[0].setting["attack"] in _SHOWN_ATTACKS
        ]
        if panels:
            yield Drawing(
                figures.attack_rates(panels),
                _caption(
                    f"{experiment.title}, members found against others taken for members: {where}",
                    "Dotted: an attack that knows nothing",
                ),
                [
                    {"attack": panel.title, "protection": name, "false": false, "found": found}
                    for panel in panels
                    for name, rates in panel.rates.items()
                    for false, found in rates
                ],
            )
        stated = [
            line
            for line in lines
            if "epsilon" in line.setting and "measured_epsilon" in line.values
        ]
        if stated:
            measured = [
                _curve(group, "epsilon", "attack", "measured_epsilon")._replace(
                    label=f"{_attack(group[0])}: {group[0].setting['protection']}"
                )
                for group in _group(stated, ("attack", "method", "protection"))
            ]
            yield Drawing(
                figures.measured_against_stated(measured, METRICS["measured_epsilon"].title),
                _caption(
                    f"{experiment.title}, ε measured (95 % confidence) against ε stated: {where}",
                    "Dashed: as stated",
                ),
                [
                    {"attack": curve.label, "stated": x, "measured": mean}
                    for curve in measured
                    for x, mean in zip(curve.x, curve.mean, strict=True)
                ],
            )


def _attack(line: Line) -> str:
    """Return the attack, and the method where it is on what a server makes."""
    attack: str = line.setting["attack"]
    if attack in ("single samples", "class means"):
        return attack
    return f"{attack}, {line.shown['method']}"


def _protection(line: Line) -> str:
    epsilon = line.setting.get("epsilon")
    protection: str = line.setting["protection"]
    return protection if epsilon is None else f"{protection}, ε {epsilon:g}"


def _noisy_counts(experiment: Experiment, table: Table) -> Iterator[Drawing]:
    """Yield the curves, and a client's counts before and after the most noise of every kind."""
    yield from _curves(experiment, table)
    noised = [line for line in table.lines if "class_counts" in line.rows[0].measured]
    for lines in _group(noised, _OF_DATA):
        most = min(line.setting["epsilon"] for line in lines)
        shown = {
            line.setting["noise"]: _before_and_after(line)
            for line in reversed(lines)
            if line.setting["epsilon"] == most
        }
        panels = [Bars(f"{noise}, ε {most:g}", *shown[noise]) for noise in reversed(shown)]
        yield Drawing(
            figures.counts_before_and_after(panels),
            _caption(
                f"The counts of a client before and after the noise: "
                f"{place(_OF_DATA, lines[0].setting)}",
                "Error bars: one standard deviation over draws of the noise",
            ),
            [
                {"noise": noise, "class": name, "count": count, "noisy": mean, "deviation": spread}
                for noise, bars in shown.items()
                for name, count, mean, spread in zip(*bars, strict=True)
            ],
        )


def _before_and_after(
    line: Line,
) -> tuple[list[str], list[float], list[float], list[float]]:
    """Return classes, their counts, and mean and deviation of these after the noise."""
    counts = line.rows[0].measured["class_counts"]
    after = [drawn for _, *drawn in counts.values()]
    return (
        list(counts),
        [float(before) for before, *_ in counts.values()],
        [statistics.fmean(drawn) for drawn in after],
        [statistics.stdev(drawn) for drawn in after],
    )


def _rounds(experiment: Experiment, table: Table) -> Iterator[Drawing]:
    """Yield accuracy over the rounds and, from the same rounds, against what was sent."""
    for where, lines in _panels(table, _DEALT):
        runs = [average(line.rows) for line in lines]
        over_rounds = [_over_rounds(*pair) for pair in zip(lines, runs, strict=True)]
        against_sent = [_against_sent(*pair) for pair in zip(over_rounds, runs, strict=True)]
        marks = (
            any(run.training_free for run in runs)
            and "Dotted: training-free rounds; star: where training starts",
            _deviation("Bands", lines),
        )
        data = [
            {"method": curve.label, **after._asdict()}
            for curve, run in zip(over_rounds, runs, strict=True)
            for after in run.rounds
        ]
        for curves, sentence in (
            (over_rounds, "Accuracy after every round"),
            (against_sent, "Accuracy against what was sent until then"),
        ):
            yield Drawing(
                figures.rounds(curves, sent=curves is against_sent),
                _caption(f"{sentence}: {where}", *marks),
                data,
            )


def _over_rounds(line: Line, run: Average) -> Curve:
    return Curve(
        line.shown["method"],
        [after.round for after in run.rounds],
        [after.accuracy for after in run.rounds],
        [after.deviation for after in run.rounds],
        method=line.setting["method"],
        training_free=run.training_free,
    )


def _against_sent(curve: Curve, run: Average) -> Curve:
    """Return the curve over the megabytes sent, where something was sent."""
    sent = [after.sent_mb for after in run.rounds]
    nothing = sent.count(0)
    return curve._replace(
        x=sent[nothing:], mean=curve.mean[nothing:], deviation=curve.deviation[nothing:]
    )


def _panels(table: Table, names: Sequence[str]) -> Iterator[tuple[str, list[Line]]]:
    """Yield the lines that have the same values under some names, and these values in words."""
    for lines in _group(table.lines, names):
        yield place(names, lines[0].setting), lines


def _group(lines: Sequence[Line], names: Sequence[str]) -> list[list[Line]]:
    """Return the lines of equal values together, in the order in which they come first."""

    def values(line: Line) -> str:
        return repr([line.setting.get(name) for name in names])

    order = {values(line): position for position, line in reversed(list(enumerate(lines)))}
    ordered = sorted(lines, key=lambda line: order[values(line)])
    return [list(group) for _, group in groupby(ordered, key=values)]


def _known(value: object) -> bool:
    return value is not None and value == value  # noqa: PLR0124 (NaN is not equal to itself)


def _deviation(mark: str, lines: Sequence[Line]) -> str:
    several = [len(line.rows) for line in lines if len(line.rows) > 1]
    if not several:
        return "One seed"
    without = "" if len(several) == len(lines) else "; without one: a single seed"
    return f"{mark}: one standard deviation over {seeds(several)}{without}"


def _caption(*sentences: str | bool) -> str:
    return " ".join(f"{sentence}." for sentence in sentences if sentence)
