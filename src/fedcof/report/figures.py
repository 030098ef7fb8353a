"""The figures of this field, as matplotlib draws them: one style on paper and on a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

MB = 1e6
"""The paper's megabyte."""

INK, GRID = "#1b1f24", "#d5dae0"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#8a6d00", "#5b5fc7", "#56a3d9", "#b03060")
"""Okabe and Ito's colours, some darkened: distinct to colour-blind readers, on paper and screen."""
MARKERS = "osD^vP*X"

_SIZE = (4.6, 3.5)
_SIZES = 10


class Point(NamedTuple):
    """A method's place: megabytes sent, accuracy in per cent over seeds, and the paper's."""

    label: str
    megabytes: float
    accuracy: float
    deviation: float | None = None
    paper: tuple[float, float] | None = None
    """Megabytes and accuracy in the paper."""


class Curve(NamedTuple):
    """A line over seeds, with the band of one deviation."""

    label: str
    x: Sequence[float]
    mean: Sequence[float]
    deviation: Sequence[float]
    paper: Mapping[float, float] = {}


def accuracy_vs_communication(points: Sequence[Point], title: str = "") -> Figure:
    """Draw accuracy against what all clients sent, on a log axis (fig. intro).

    A hollow mark is the paper's.
    """
    figure, axes = _axes(title)
    for index, point in enumerate(sorted(points, key=lambda point: point.megabytes)):
        color, marker = _style(index)
        axes.errorbar(
            point.megabytes,
            point.accuracy,
            yerr=point.deviation,
            fmt=marker,
            color=color,
            markersize=7,
            capsize=3,
            label=point.label,
        )
        if point.paper is not None:
            axes.plot(
                *point.paper, marker, color=color, markersize=9, fillstyle="none", linestyle=""
            )
    axes.set_xscale("log")
    axes.margins(x=0.1, y=0.12)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("sent by all clients (MB, log)")
    axes.set_ylabel("test accuracy (%)")
    _legend(figure)
    return figure


def curves(lines: Sequence[Curve], x_title: str, *, title: str = "", log: bool = False) -> Figure:
    """Draw accuracy over a setting, a band of one deviation around every line.

    Hollow marks are the paper's. On a log axis a setting of 0 stands at the left end.
    """
    figure, axes = _axes(title)
    ticks = sorted({x for line in lines for x in line.x})
    places = {x: place for place, x in enumerate(ticks)} if log else {x: x for x in ticks}
    for index, line in enumerate(lines):
        color, marker = _style(index)
        x = [places[value] for value in line.x]
        mean, deviation = np.asarray(line.mean), np.asarray(line.deviation)
        axes.plot(x, mean, color=color, marker=marker, markersize=4, label=line.label)
        axes.fill_between(x, mean - deviation, mean + deviation, color=color, alpha=0.18, lw=0)
        if line.paper:
            axes.plot(
                [places[value] for value in line.paper],
                list(line.paper.values()),
                marker=marker,
                color=color,
                markersize=8,
                fillstyle="none",
                linestyle="",
            )
    axes.set_xticks(list(places.values()), [f"{x:g}" for x in places])
    axes.set_xlabel(x_title)
    axes.set_ylabel("test accuracy (%)")
    _legend(figure)
    return figure


def rounds(lines: Sequence[Curve], *, title: str = "") -> Figure:
    """Draw accuracy after every round of partial participation."""
    figure, axes = _axes(title)
    for index, line in enumerate(lines):
        color, _ = _style(index)
        mean, deviation = np.asarray(line.mean), np.asarray(line.deviation)
        axes.plot(line.x, mean, color=color, label=line.label)
        axes.fill_between(line.x, mean - deviation, mean + deviation, color=color, alpha=0.18, lw=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round")
    axes.set_ylabel("test accuracy (%)")
    _legend(figure)
    return figure


def class_histograms(
    counts: Mapping[str, Mapping[str, int]], classes: int, *, title: str = ""
) -> Figure:
    """Draw how many samples of every class each client holds: a dot a class, its area the count."""
    figure, axes = _axes(title)
    largest = max(count for held in counts.values() for count in held.values())
    dots: dict[int, list[tuple[int, int]]] = {}
    for client, held in enumerate(counts.values()):
        for label, count in held.items():
            dots.setdefault(math.ceil(_SIZES * math.sqrt(count / largest)), []).append(
                (client, int(label))
            )
    for size, places in sorted(dots.items()):  # one mark a size keeps the file small
        diameter = 9.0 * size / _SIZES
        axes.plot(*zip(*places, strict=True), "o", ms=diameter, color=SERIES[0], alpha=0.7, mew=0)
    axes.set_xlim(-0.7, len(counts) - 0.3)
    axes.set_ylim(-0.7, classes - 0.3)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    step = max(1, len(counts) // 8)
    axes.set_xticks(range(0, len(counts), step), list(counts)[::step])
    axes.set_xlabel(f"client; the largest dot is {largest:,} samples")
    axes.set_ylabel("class")
    return figure


def _axes(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE, layout="constrained", facecolor="none")
    axes = figure.add_subplot(facecolor="none")
    axes.grid(color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    axes.tick_params(which="both", colors=INK, labelsize=9.5)
    axes.xaxis.label.set(color=INK, size=10)
    axes.yaxis.label.set(color=INK, size=10)
    if title:
        axes.set_title(title, color=INK, fontsize=10, loc="left")
    return figure, axes


def _style(index: int) -> tuple[str, str]:
    return SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)]


def _legend(figure: Figure) -> None:
    """Put the legend below the axes, where no data is."""
    handles, _ = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        loc="outside lower center",
        ncols=2 if len(handles) > 1 else 1,
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
    )
