"""The figures of this field, as matplotlib draws them."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from fedcof.experiments import Result

MB = 1e6
"""The paper's megabyte."""


def accuracy_vs_communication(results: Sequence[Result], title: str) -> Figure:
    """Draw accuracy against what all clients sent, on a log axis (fig. intro)."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for index, result in enumerate(sorted(results, key=lambda result: result.wire_bytes)):
        x, y = result.wire_bytes / MB, 100 * result.accuracy
        axes.scatter(x, y, s=70, color=f"C{index}", zorder=3)
        axes.annotate(
            f"{result.method}\n{y:.1f} %, {x:,.1f} MB",
            (x, y),
            xytext=(0, 10 if index % 2 == 0 else -12),
            textcoords="offset points",
            ha="center",
            va="bottom" if index % 2 == 0 else "top",
            fontsize=9,
        )
    axes.set_xscale("log")
    axes.margins(x=0.25, y=0.35)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("sent by all clients (MB, log)")
    axes.set_ylabel("test accuracy (%)")
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    return figure
