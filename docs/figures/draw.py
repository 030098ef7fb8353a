"""Draw the pictures of the page "How it works", each from data that it makes.

That of the page "A million clients" shows what `benchmarks/million.py --add` has measured.

python docs/figures/draw.py [FOLDER]
"""

import json
import sys
from pathlib import Path
from typing import Any, TypeVar

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter
from numpy.typing import NDArray

import fedcof

Array = NDArray[np.float64]
Client = tuple[Array, NDArray[np.int64]]
S = TypeVar("S", bound=fedcof.Summary)

COVARIANCE = np.array([[3.0, 1.9], [1.9, 1.4]])
CENTRES = np.array([[-2.2, -0.2], [2.5, 2.4], [0.4, -1.0]])
COLOURS = ("#0072B2", "#E69F00", "#009E73")  # told apart by the colour-blind
TRUE, ESTIMATED = "#444444", "#D55E00"


def deal(rng: np.random.Generator, clients: int, size: int, centres: Array) -> list[Client]:
    """Give every client samples of all classes, which differ in their centre alone."""
    labels = np.repeat(np.arange(len(centres)), size)
    spread = np.zeros(2)
    return [
        (centres[labels] + rng.multivariate_normal(spread, COVARIANCE, len(labels)), labels)
        for _ in range(clients)
    ]


def summarize(method: fedcof.Method[S], clients: list[Client]) -> list[S]:
    """Return what every client sends."""
    return [
        method.summarize(features, labels, client_id=f"client-{k:02}")
        for k, (features, labels) in enumerate(clients)
    ]


def draw_ellipse(axes: Axes, centre: Array, covariance: Array, *, color: str, dashed: bool) -> None:
    """Draw where a normal distribution has 86 % of its samples, two standard deviations."""
    values, vectors = np.linalg.eigh(covariance)
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    width, height = 4 * np.sqrt(values[::-1])
    middle, style = (centre[0], centre[1]), "--" if dashed else "-"
    axes.add_patch(
        Ellipse(middle, width, height, angle=angle, fill=False, ec=color, lw=2.2, ls=style)
    )


def covariance_from_means() -> Figure:
    """Draw the samples of a class at the clients, the means they send, and what follows."""
    clients = deal(np.random.default_rng(4), 30, 12, np.zeros((1, 2)))
    summaries = summarize(fedcof.FedCOF(), clients)
    means = np.concatenate([summary.means for summary in summaries])
    estimate = fedcof.estimate_class_covariances(summaries)[0]
    samples = np.concatenate([features for features, _ in clients])
    figure, panels = plt.subplots(1, 3, figsize=(10.5, 3.7), sharex=True, sharey=True)
    titles = (
        "stays: the samples of a class at 30 clients",
        "is sent: each client's mean",
        "follows: the class's covariance",
    )
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=10)
        axes.set(xlim=(-5.5, 5.5), ylim=(-4, 4), xticks=[], yticks=[], aspect="equal")
    palette = plt.get_cmap("viridis")(np.linspace(0, 0.95, len(clients)))
    for (features, _), color in zip(clients, palette, strict=True):
        panels[0].scatter(*features.T, s=5, color=color)
    for axes in panels[1:]:
        axes.scatter(*means.T, s=14, color=palette, zorder=3)
    draw_ellipse(panels[2], samples.mean(0), np.cov(samples.T), color=TRUE, dashed=True)
    draw_ellipse(panels[2], means.mean(0), estimate, color=ESTIMATED, dashed=False)
    panels[2].text(-5.2, 3.3, "from the samples (dashed)", color=TRUE, fontsize=9)
    panels[2].text(-5.2, -3.7, "from the means alone", color=ESTIMATED, fontsize=9)
    return figure


def boundaries() -> Figure:
    """Draw whom three heads give a place to: with the covariance, without, and with all data."""
    rng = np.random.default_rng(2)
    clients = deal(rng, 40, 8, CENTRES)
    test, labels = deal(rng, 1, 1000, CENTRES)[0]
    features = np.concatenate([features for features, _ in clients])
    everything = [(features, np.concatenate([labels for _, labels in clients]))]
    heads: dict[str, tuple[fedcof.Method[Any], list[Client]]] = {
        "FedNCM: the nearest mean": (fedcof.FedNCM(), clients),
        "FedCOF: the same means": (fedcof.FedCOF(shrinkage=0.01), clients),
        "all data in one place": (fedcof.Fed3R(), everything),
    }
    figure, panels = plt.subplots(1, 3, figsize=(10.5, 3.9), sharex=True, sharey=True)
    grid = np.stack(np.meshgrid(np.linspace(-7, 7, 300), np.linspace(-5, 6, 250)), axis=-1)
    for axes, (title, (method, data)) in zip(panels, heads.items(), strict=True):
        head = method.solve(summarize(method, data))
        regions = head.predict(grid.reshape(-1, 2)).reshape(grid.shape[:2])
        axes.pcolormesh(
            grid[..., 0],
            grid[..., 1],
            regions,
            cmap=ListedColormap(COLOURS),
            alpha=0.3,
            rasterized=True,
        )
        for label, color in enumerate(COLOURS):
            axes.scatter(*features[everything[0][1] == label].T, s=2.5, color=color)
        axes.set_title(f"{title}\n{head.score(test, labels):.0%} right", fontsize=10)
        axes.set(xlim=(-7, 7), ylim=(-5, 6), xticks=[], yticks=[], aspect="equal")
    return figure


def error_by_means() -> Figure:
    """Draw how the error of the estimate falls with the number of means."""
    counts, repeats = (3, 5, 10, 20, 50, 100, 200, 500), 30
    figure, axes = plt.subplots(figsize=(5.2, 3.4))
    for size, color, marker in ((2, COLOURS[0], "o"), (20, COLOURS[1], "s")):
        errors = []
        for means in counts:
            rng = np.random.default_rng(means)
            method = fedcof.FedCOF(means_per_class=means)  # of one client: as many would send one
            for _ in range(repeats):
                [(features, labels)] = deal(rng, 1, means * size, np.zeros((1, 2)))
                summary = method.summarize(features, labels, client_id="client", rng=rng)
                estimate = fedcof.estimate_class_covariances([summary])[0]
                errors.append(np.linalg.norm(estimate - COVARIANCE))
        by_count = np.reshape(errors, (len(counts), repeats)).mean(axis=1)
        relative = by_count / np.linalg.norm(COVARIANCE)
        label = f"{size} samples behind a mean"
        axes.loglog(counts, relative, marker=marker, color=color, label=label)
    axes.set(xlabel="means of the class", ylabel="relative error of the covariance")
    for axis, ticks in ((axes.xaxis, (3, 10, 30, 100, 300)), (axes.yaxis, (0.05, 0.1, 0.2, 0.5))):
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure


MEASURED = Path(__file__).with_name("million.json")


def million() -> Figure:
    """Draw seconds and memory of a streamed solution over the clients, the length, the classes."""
    points = [p for p in json.loads(MEASURED.read_text()) if p["coding"] == "int8"]
    usual = {"clients": 10_000, "classes": 1203, "dim": 512}
    of_axis = {"clients": usual, "dim": usual | {"clients": 5000}, "classes": usual}
    titles = {
        "clients": "clients, of 6 means each",
        "dim": "length of a feature, 5,000 clients",
        "classes": "classes, 10,000 clients",
    }
    figure, panels = plt.subplots(2, 3, figsize=(10.5, 5.6), sharex="col", sharey="row")
    for (axis, title), (above, below) in zip(titles.items(), panels.T, strict=True):
        along = [
            p
            for p in points
            if all(p[name] == value for name, value in of_axis[axis].items() if name != axis)
        ]
        along.sort(key=lambda p: p[axis])
        at = [p[axis] for p in along]
        above.loglog(at, [p["solving"] for p in along], "o-", color=COLOURS[0], label="solving")
        least = [p["update"] + p["reading"] for p in along]
        above.loglog(at, least, "s--", color=TRUE, label="rank-k update and reading")
        below.loglog(at, [p["peak"] / 1e9 for p in along], "o-", color=COLOURS[1])
        below.axhline(1.5, color=ESTIMATED, ls=":")
        below.set(xlabel=title, ylim=(0.1, 3))
        for axes in (above, below):
            axes.grid(alpha=0.3)
            axes.xaxis.set_minor_locator(NullLocator())
    panels[1, 1].xaxis.set_major_locator(FixedLocator([256, 512, 1024, 2048, 4096]))
    panels[1, 1].xaxis.set_major_formatter("{x:.0f}")
    panels[1, 0].yaxis.set_major_locator(FixedLocator([0.2, 0.5, 1, 1.5]))
    panels[1, 0].yaxis.set_minor_locator(NullLocator())
    panels[1, 0].yaxis.set_major_formatter("{x:g}")
    panels[0, 0].set_ylabel("seconds of the processor")
    panels[1, 0].set_ylabel("peak memory, GB")
    panels[0, 0].legend(frameon=False, loc="upper left")
    return figure


def draw(folder: Path) -> None:
    """Write the pictures; the same versions of the packages write the same bytes."""
    mpl.rcParams.update({"svg.hashsalt": "fedcof", "svg.fonttype": "path", "savefig.dpi": 110})
    for picture in (covariance_from_means, boundaries, error_by_means, million):
        figure = picture()
        figure.tight_layout()
        name = picture.__name__.replace("_", "-")
        figure.savefig(folder / f"{name}.svg", facecolor="white", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
