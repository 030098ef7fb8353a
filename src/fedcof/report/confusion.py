"""Pictures of what a head takes for what, and of how far its probabilities can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from fedcof.evaluation import Calibration
from fedcof.report.figures import GRID, INK

_WITH_NUMBERS = 20
"""Up to so many classes every cell bears its number."""
_NAMED = 120
"""Up to so many classes all are named; above, as many as fit."""
_INCHES = (2.6, 13.0)
"""The smallest and the largest side of the matrix."""
_LONGEST_NAME = 24
_LETTERS_AN_INCH = 8
"""Of a title, so that a long one leaves room for the axes."""


def confusion_matrix_figure(
    confusion: NDArray[np.int64], classes: Sequence[Any], *, title: str = ""
) -> Figure:
    """Draw a confusion matrix: the shade of a cell is its share of the true class.

    Parameters
    ----------
    confusion : ndarray of int64, shape (classes, classes)
        The samples of a class, by row, that are taken for another, by column.
    classes : sequence of int or str
        Their names.
    title : str, default ""
    """
    number = len(classes)
    names = [_shortened(str(name)) for name in classes]
    side = float(np.clip(0.42 * number, *_INCHES))
    step = -(-number // _NAMED)
    size = min(9.0, 0.75 * 72 * side / (number / step))  # in points, of which an inch has 72
    space = 0.01 * size * max(map(len, names))
    figure = Figure(figsize=(side + space + 2.2, side + space + 1.0), layout="constrained")
    axes = figure.add_subplot()
    support = confusion.sum(axis=1, keepdims=True)
    shares = np.divide(confusion, support, out=np.full(confusion.shape, np.nan), where=support > 0)
    image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, interpolation="nearest")
    if number <= _WITH_NUMBERS:
        for row, column in zip(*np.nonzero(confusion), strict=True):
            color = "white" if shares[row, column] > 0.55 else INK
            text = f"{confusion[row, column]:,}"
            axes.text(column, row, text, ha="center", va="center", color=color, fontsize=size)
    ticks = range(0, number, step)
    axes.set_xticks(ticks, names[::step], rotation=90, fontsize=size, color=INK)
    axes.set_yticks(ticks, names[::step], fontsize=size, color=INK)
    axes.set_xlabel("predicted", color=INK)
    axes.set_ylabel("true", color=INK)
    bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.02, format=_percent())
    bar.set_label("share of the true class", color=INK)
    _finish(figure, axes, title)
    return figure


def reliability_diagram(calibration: Calibration, *, title: str = "") -> Figure:
    """Draw the accuracy of samples over their confidence; on the diagonal they are the same."""
    figure = Figure(figsize=(4.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    full = calibration.counts > 0
    axes.plot([0, 1], [0, 1], color=GRID, lw=1.5, label="as they should be")
    axes.scatter(
        calibration.confidence[full],
        calibration.accuracy[full],
        s=20 + 400 * calibration.counts[full] / calibration.counts.sum(),
        color="#0072b2",
        alpha=0.8,
        label="samples of a bin; the area is their number",
    )
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="confidence", ylabel="accuracy")
    axes.xaxis.set_major_formatter(_percent())
    axes.yaxis.set_major_formatter(_percent())
    figure.legend(loc="outside lower center", frameon=False, fontsize=9, labelcolor=INK)
    _finish(figure, axes, title)
    return figure


def _percent() -> FuncFormatter:
    return FuncFormatter(lambda share, _: f"{100 * share:.0f} %")


def _shortened(name: str) -> str:
    """Leave out the middle of a long name: many begin alike."""
    name = name.replace("$", r"\$")  # no mathematics in other people's names
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]}…{name[1 - half :]}"


def _finish(figure: Figure, axes: Axes, title: str) -> None:
    axes.tick_params(colors=INK, length=2)
    for spine in axes.spines.values():
        spine.set_color(GRID)
    if title:
        letters = int(_LETTERS_AN_INCH * figure.get_figwidth())
        lines = wrap(title.replace("$", r"\$"), letters, max_lines=3, placeholder="…")
        axes.set_title("\n".join(lines), color=INK, fontsize=10, loc="left")
