"""The figures of this field, as matplotlib draws them: one style on paper and on a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fedcof.report.styles import METHOD_COLORS, Style, series_styles

MB = 1e6
"""The paper's megabyte."""

INK, GRID = "#1b1f24", "#d5dae0"
ACCURACY = "test accuracy (%)"
SENT = "sent by all clients (MB, log)"
ON_THE_WIRE = "on the wire, all clients (MB, log)"

_SIZE = (4.6, 3.5)
_PANEL, _LEGEND_HEIGHT = (4.6, 3.6), 2.0
_FEW_DECADES = 100
"""A log axis of less than two decades has a number at 2 and 5 of each."""
_DOT_SIZES = 10
_NAMED_CLASSES, _LETTERS_ACROSS = 20, 48
_MARKS_ON_A_LINE = 12


class Point(NamedTuple):
    """A method's place: megabytes sent, accuracy in per cent over seeds, and the paper's."""

    label: str
    megabytes: float
    accuracy: float
    deviation: float | None = None
    """None for one seed."""
    paper: tuple[float, float] | None = None
    """Megabytes and accuracy in the paper."""
    method: str = ""
    """Its name, after which it is drawn alike in all figures."""


class Curve(NamedTuple):
    """A line over seeds, with the band of one deviation."""

    label: str
    x: Sequence[float]
    mean: Sequence[float]
    deviation: Sequence[float]
    """NaN for one seed."""
    paper: Mapping[float, float] = {}
    method: str = ""
    """Its name; empty for a line that is a value of a setting."""
    training_free: int = 0
    """So many of its first places are of the rounds before a training."""


def accuracy_vs_communication(points: Sequence[Point], title: str = "") -> Figure:
    """Draw accuracy against what all clients sent, on a log axis (fig. intro).

    A hollow mark is the paper's.
    """
    figure, axes = _axes(title)
    ordered = sorted(points, key=lambda point: point.megabytes)
    styles = series_styles([point.method or point.label for point in ordered])
    for point, style in zip(ordered, styles, strict=True):
        axes.errorbar(
            point.megabytes,
            point.accuracy,
            yerr=point.deviation,
            fmt=style.marker,
            fillstyle=style.fill,
            color=style.color,
            markeredgecolor=INK if style.framed else style.color,
            markersize=7,
            capsize=3,
            label=point.label,
        )
        if point.paper is not None:
            _hollow(axes, *zip(point.paper), style=style)
    _log_of_megabytes(axes)
    axes.margins(x=0.1, y=0.12)
    axes.set_ylabel(ACCURACY)
    _legend(figure)
    return figure


class Panel(NamedTuple):
    """One setting of a figure with several: its title and the methods' places."""

    title: str
    points: Sequence[Point]


def frontier(panels: Sequence[Panel]) -> Figure:
    """Draw accuracy against bytes on a log axis, a panel a setting, and what no method is beyond.

    The stairs are the frontier: the best accuracy that there is for so many bytes. Points of one
    method that differ in what they send are joined.
    """
    across = min(2, len(panels))
    down = math.ceil(len(panels) / across)
    height = _PANEL[1] * down + _LEGEND_HEIGHT
    figure = Figure((_PANEL[0] * across, height), layout="constrained", facecolor="none")
    grid = figure.subplots(down, across, squeeze=False).ravel()
    styles = _styles_by_label([point for panel in panels for point in panel.points])
    for axes, panel in zip(grid, panels, strict=False):
        _dress(axes, panel.title)
        ordered = sorted(panel.points, key=lambda point: point.megabytes)
        _stairs(axes, ordered)
        for method in dict.fromkeys(point.method for point in ordered):
            own = [point for point in ordered if point.method == method]
            for label in dict.fromkeys(point.label for point in own):
                _marks(axes, [p for p in own if p.label == label], styles[label])
        _log_of_megabytes(axes)
        axes.set_xlabel(ON_THE_WIRE)
        axes.set_ylabel(ACCURACY)
        axes.margins(x=0.06, y=0.08)
    _finish_grid(figure, list(grid), len(panels), list(styles), across)
    return figure


def _finish_grid(
    figure: Figure, grid: Sequence[Axes], drawn: int, labels: Sequence[str], across: int
) -> None:
    """Hide the axes beyond those drawn; name what is in any of them, once and in this order."""
    for axes in grid[drawn:]:
        axes.set_visible(False)
    handles: dict[str, Any] = {}
    for axes in grid[:drawn]:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    shown = [label for label in labels if label in handles]
    figure.legend(
        [handles[label] for label in shown],
        shown,
        loc="outside lower center",
        ncols=3 if across > 1 else 2,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )


def _styles_by_label(points: Sequence[Point]) -> dict[str, Style]:
    methods = {point.label: point.method or point.label for point in points}
    return dict(zip(methods, series_styles(list(methods.values())), strict=True))


def _stairs(axes: Axes, ordered: Sequence[Point]) -> None:
    """Draw the best accuracy for so many bytes."""
    best: list[Point] = []
    for point in ordered:
        if not best or point.accuracy > best[-1].accuracy:
            best.append(point)
    right = max(point.megabytes for point in ordered)
    x = [*(point.megabytes for point in best), right]
    y = [*(point.accuracy for point in best), best[-1].accuracy]
    axes.step(x, y, where="post", color=INK, lw=0.9, alpha=0.45, zorder=1)


def _marks(axes: Axes, points: Sequence[Point], style: Style) -> None:
    axes.errorbar(
        [point.megabytes for point in points],
        [point.accuracy for point in points],
        yerr=[point.deviation or 0.0 for point in points],
        fmt=style.marker,
        fillstyle=style.fill,
        color=style.color,
        markeredgecolor=INK if style.framed else style.color,
        markersize=6.5,
        elinewidth=0.8,
        linestyle="-" if len(points) > 1 else "none",
        label=points[0].label,
        zorder=3,
    )


def curves(
    lines: Sequence[Curve],
    x_title: str,
    y_title: str = ACCURACY,
    *,
    title: str = "",
    log: bool = False,
    levels: Mapping[str, float] = MappingProxyType({}),
) -> Figure:
    """Draw what was measured over a setting, a band of one deviation around every line.

    Hollow marks are the paper's, dashed levels what is measured without the setting. On a log axis
    a setting of 0 stands at the left end.
    """
    figure, axes = _axes(title)
    ticks = sorted({x for line in lines for x in line.x})
    places = {x: place for place, x in enumerate(ticks)} if log else {x: x for x in ticks}
    for line, style in zip(lines, series_styles([line.method for line in lines]), strict=True):
        x = [places[value] for value in line.x]
        _line(axes, x, line.mean, style, markersize=5, label=line.label)
        _band(axes, x, line, style)
        if line.paper:
            _hollow(axes, [places[x] for x in line.paper], list(line.paper.values()), style=style)
    for label, level in levels.items():
        axes.axhline(level, color=INK, lw=1, ls="--", label=label, zorder=1)
    axes.set_xticks(list(places.values()), [f"{x:g}" for x in places])
    axes.set_xlabel(x_title)
    axes.set_ylabel(y_title)
    _legend(figure)
    return figure


def rounds(lines: Sequence[Curve], *, sent: bool = False, title: str = "") -> Figure:
    """Draw accuracy after every round; or, if ``sent``, against what was sent until then.

    The rounds before a training are dotted, and a star is where it starts.
    """
    figure, axes = _axes(title)
    for line, style in zip(lines, series_styles([line.method for line in lines]), strict=True):
        free = line.training_free
        every = max(1, math.ceil(len(line.x) / _MARKS_ON_A_LINE))
        _line(
            axes,
            line.x[max(free - 1, 0) :],
            line.mean[max(free - 1, 0) :],
            style,
            markersize=4.5,
            markevery=(0 if free == 0 else every, every),
            label=line.label,
        )
        if free:
            _line(axes, line.x[:free], line.mean[:free], style._replace(marker="", dash=":"))
            axes.plot(
                line.x[free - 1],
                line.mean[free - 1],
                marker="*",
                markersize=11,
                color=style.color,
                mec=INK,
                mew=0.5,
                zorder=3,
            )
        _band(axes, line.x, line, style)
    if sent:
        _log_of_megabytes(axes)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("round")
    axes.set_ylabel(ACCURACY)
    _legend(figure)
    return figure


def class_histograms(counts: Mapping[str, Mapping[str, int]], *, title: str = "") -> Figure:
    """Draw how many samples of every class each client holds: a dot a class, its area the count.

    Parameters
    ----------
    counts : mapping
        From a client to the samples that it holds of every class, by the classes' names.
    title : str
    """
    figure, axes = _axes(title)
    largest = max(count for held in counts.values() for count in held.values())
    classes = sorted({name for held in counts.values() for name in held}, key=_natural)
    rows = {name: row for row, name in enumerate(classes)}
    dots: dict[int, list[tuple[int, int]]] = {}
    for client, held in enumerate(counts.values()):
        for name, count in held.items():
            size = math.ceil(_DOT_SIZES * math.sqrt(count / largest))
            dots.setdefault(size, []).append((client, rows[name]))
    for size, places in sorted(dots.items()):  # one mark a size keeps the file small
        diameter = 9.0 * size / _DOT_SIZES
        color = METHOD_COLORS[0].light
        axes.plot(*zip(*places, strict=True), "o", ms=diameter, color=color, alpha=0.7, mew=0)
    axes.set_xlim(-0.7, len(counts) - 0.3)
    axes.set_ylim(-0.7, len(classes) - 0.3)
    if len(classes) <= _NAMED_CLASSES:
        axes.set_yticks(range(len(classes)), [_shortened(name) for name in classes])
        axes.set_ylabel("class")
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(classes):,} classes, {classes[0]} to {classes[-1]}")
    shown = range(0, len(counts), math.ceil(len(counts) / 8))
    clients = list(counts)
    names = [_shortened(clients[place], _LETTERS_ACROSS // len(shown)) for place in shown]
    axes.set_xticks(shown, names)
    axes.set_xlabel(f"client; the largest dot is {largest:,} samples")
    return figure


class Bars(NamedTuple):
    """A panel of `counts_before_and_after`: classes, their counts, and those after the noise."""

    title: str
    classes: Sequence[str]
    before: Sequence[float]
    after: Sequence[float]
    """Means over draws of the noise."""
    deviation: Sequence[float]


def counts_before_and_after(panels: Sequence[Bars]) -> Figure:
    """Draw a client's samples of every class, as they are and with noise, a panel a noise."""
    size = (2 * _SIZE[0], 2.2 * len(panels) + 0.6)
    figure = Figure(size, layout="constrained", facecolor="none")
    exact, noisy = METHOD_COLORS[0].light, METHOD_COLORS[1].light
    grid = figure.subplots(len(panels), squeeze=False)[:, 0]
    for axes, panel in zip(grid, panels, strict=True):
        _dress(axes, panel.title)
        axes.grid(visible=False, axis="x")
        order = sorted(range(len(panel.classes)), key=lambda row: _natural(panel.classes[row]))
        places = np.arange(len(order))
        before, after, deviation = (
            [values[row] for row in order]
            for values in (panel.before, panel.after, panel.deviation)
        )
        axes.bar(places - 0.2, before, 0.4, color=exact, label="as they are")
        # A count is not below zero, and neither is what is drawn of its deviation.
        below = np.minimum(deviation, after)
        axes.bar(
            places + 0.2,
            after,
            0.4,
            yerr=[below, deviation],
            color=noisy,
            ecolor=INK,
            error_kw={"elinewidth": 0.8},
            label="with noise",
        )
        names = [_shortened(panel.classes[row], 12) for row in order]
        axes.set_xticks(places, names, rotation=90, fontsize=7.5)
        axes.set_ylabel("samples")
        axes.margins(x=0.01)
        if axes is grid[0]:
            _legend(figure)
    return figure


class Rates(NamedTuple):
    """A panel of `attack_rates`: by protection, pairs of false and of true positives."""

    title: str
    rates: Mapping[str, Sequence[Sequence[float]]]


def attack_rates(panels: Sequence[Rates]) -> Figure:
    """Draw which share of the members an attack names against that of the others, both on logs."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.rates))
    styles = dict(zip(names, series_styles([""] * len(names)), strict=True))
    across = min(2, len(panels))
    down = math.ceil(len(panels) / across)
    size = (_PANEL[0] * across, _PANEL[1] * down + _LEGEND_HEIGHT / 2)
    figure = Figure(size, layout="constrained", facecolor="none")
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for axes, panel in zip(grid, panels, strict=False):
        _dress(axes, panel.title)
        low = min(false for rates in panel.rates.values() for false, _ in rates)
        axes.plot([low, 1], [low, 1], color=INK, lw=0.9, ls=":", zorder=1)
        for name, rates in panel.rates.items():
            false, found = zip(*rates, strict=True)
            shown = list(np.maximum(found, low))
            every = max(1, len(false) // _MARKS_ON_A_LINE)
            _line(axes, false, shown, styles[name], markersize=4, markevery=every, label=name)
        axes.set(xscale="log", yscale="log", xlim=(low, 1), ylim=(low, 1.15))
        axes.set_xlabel("others taken for members")
        axes.set_ylabel("members found")
    _finish_grid(figure, list(grid), len(panels), names, across)
    return figure


def measured_against_stated(lines: Sequence[Curve], y_title: str) -> Figure:
    """Draw a measured epsilon against the stated one, which it has to stay below."""
    figure, axes = _axes("")
    for line, style in zip(lines, series_styles([line.method for line in lines]), strict=True):
        _line(axes, line.x, line.mean, style, markersize=5, label=line.label)
        _band(axes, line.x, line, style)
    most = max(x for line in lines for x in line.x)
    axes.plot([0, most], [0, most], color=INK, lw=1, ls="--", zorder=1)
    axes.set_xlabel("ε stated")
    axes.set_ylabel(y_title)
    figure.legend(loc="outside lower center", ncols=1, frameon=False, fontsize=8.5, labelcolor=INK)
    return figure


def answers_over_time(
    seconds: Sequence[float], answered: Sequence[int], *, title: str = ""
) -> Figure:
    """Draw how many clients had answered by when."""
    figure, axes = _axes(title)
    axes.step(seconds, answered, where="post", color=METHOD_COLORS[0].light, lw=1.8)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("seconds since the run began")
    axes.set_ylabel("clients that answered")
    return figure


def save_pdf(figure: Figure, path: Path) -> None:
    """Write a figure as PDF with its TrueType fonts inside: venues refuse fonts of Type 3."""
    with mpl.rc_context({"pdf.fonttype": 42}):
        figure.savefig(path, format="pdf", metadata={"CreationDate": None})


def _axes(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE, layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    _dress(axes, title)
    return figure, axes


def _dress(axes: Axes, title: str) -> None:
    """Give axes the style of all figures."""
    axes.set_facecolor("none")
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


def _line(axes: Axes, x: Sequence[float], y: Sequence[float], style: Style, **options: Any) -> None:
    axes.plot(
        x,
        y,
        color=style.color,
        marker=style.marker,
        fillstyle=style.fill,
        markeredgecolor=INK if style.framed else style.color,
        linestyle=style.dash,
        **options,
    )


def _band(axes: Axes, x: Sequence[float], line: Curve, style: Style) -> None:
    mean, deviation = np.asarray(line.mean), np.asarray(line.deviation)
    if np.isfinite(deviation).any():
        low, high = mean - deviation, mean + deviation
        axes.fill_between(x, low, high, color=style.color, alpha=0.18, lw=0)


def _hollow(axes: Axes, x: Sequence[float], y: Sequence[float], *, style: Style) -> None:
    """Mark the paper's numbers."""
    axes.plot(x, y, style.marker, color=style.color, ms=9, fillstyle="none", linestyle="")


def _log_of_megabytes(axes: Axes) -> None:
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    if high < _FEW_DECADES * low:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(SENT)


def _natural(name: str) -> tuple[bool, float, str]:
    """Return a key that sorts numbers as numbers, before words."""
    return (False, int(name), "") if name.isdecimal() else (True, 0, name.casefold())


def _shortened(name: str, length: int = 16) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}…"


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
