"""What an experiment is: data, not a script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any, Literal, NamedTuple

from fedcof.data import Dealing
from fedcof.methods import Method

Measure = Literal["accuracy", "participation"]
Figure = Literal["communication", "curves", "rounds"]


@dataclass(frozen=True)
class Noise:
    """Noise on the counts before they leave the client (appendix, privacy)."""

    noise: str
    epsilon: float


class Setting(NamedTuple):
    """One point of a grid; with a seed, one run."""

    dataset: str
    backbone: str
    dealing: Dealing
    method: Method[Any]
    noise: Noise | None

    def columns(self) -> dict[str, Any]:
        """Return the setting as columns of a row of results."""
        return {
            "dataset": self.dataset,
            "backbone": self.backbone,
            "partition": self.dealing.name,
            **asdict(self.dealing),
            "method": self.method.name,
            **asdict(self.method),
            **(asdict(self.noise) if self.noise else {}),
        }


@dataclass(frozen=True)
class Grid:
    """Everything with everything."""

    datasets: tuple[str, ...]
    backbones: tuple[str, ...]
    dealings: tuple[Dealing, ...]
    methods: tuple[Method[Any], ...]
    noises: tuple[Noise | None, ...] = (None,)

    def __iter__(self) -> Iterator[Setting]:
        """Yield the settings; those of one data set and backbone are neighbours."""
        axes = (self.datasets, self.backbones, self.dealings, self.methods, self.noises)
        yield from (Setting(*point) for point in product(*axes))


@dataclass(frozen=True)
class Paper:
    """Numbers of the paper, copied: a mean, with a standard deviation where there is one.

    Parameters
    ----------
    metric : str
        A key of `METRICS`.
    columns : tuple of str
        Which columns of a row name a cell.
    cells : mapping of tuple to number or pair of numbers
        In the metric's unit.
    """

    metric: str
    columns: tuple[str, ...]
    cells: Mapping[tuple[Any, ...], float | tuple[float, float]]

    def find(self, row: Mapping[str, Any]) -> tuple[float, float | None] | None:
        """Return mean and deviation of the cell that a row belongs to."""
        cell = self.cells.get(tuple(row.get(column) for column in self.columns))
        if cell is None:
            return None
        return cell if isinstance(cell, tuple) else (cell, None)


@dataclass(frozen=True)
class Experiment:
    """A table or a figure of the paper.

    Parameters
    ----------
    name : str
        The paper's label.
    title : str
        What it shows.
    grids : tuple of Grid
        What is run. ``--dataset`` of a set that no grid names takes the first.
    paper : tuple of Paper
        The paper's numbers.
    metrics : tuple of str
        What is shown, keys of `METRICS`.
    measure : {"accuracy", "participation"}
        The accuracy of the single round, or that after every round of partial participation.
    figure : {"communication", "curves", "rounds"}, optional
        How it is drawn.
    x, lines : str
        For curves, the column on the x axis and the column that tells the lines apart.
    seeds : int
        How many; they are 0, 1, 2, ...
    notes : tuple of str
        What a reader has to know.
    """

    name: str
    title: str
    grids: tuple[Grid, ...]
    paper: tuple[Paper, ...] = ()
    metrics: tuple[str, ...] = ("accuracy",)
    measure: Measure = "accuracy"
    figure: Figure | None = None
    x: str = ""
    lines: str = ""
    seeds: int = 5
    notes: tuple[str, ...] = field(default=())

    def settings(self) -> list[Setting]:
        """Return all points of all grids."""
        return [setting for grid in self.grids for setting in grid]

    def on(self, dataset: str | None, backbone: str | None) -> Experiment:
        """Return the experiment on one data set or backbone, be it the paper's or not."""
        grids = self.grids
        if dataset is not None:
            grids = tuple(g for g in grids if dataset in g.datasets) or grids[:1]
            grids = tuple(replace(grid, datasets=(dataset,)) for grid in grids)
        if backbone is not None:
            grids = tuple(replace(grid, backbones=(backbone,)) for grid in grids)
        return replace(self, grids=grids)


class Metric(NamedTuple):
    """How a column of the results is shown: its name, its unit's size, and a format."""

    title: str
    unit: float
    format: str


METRICS = {
    "accuracy": Metric("accuracy (%)", 0.01, ".1f"),
    "train_accuracy": Metric("training accuracy (%)", 0.01, ".1f"),
    "formula_bytes": Metric("sent (MB)", 1e6, ",.1f"),
    "wire_bytes": Metric("on the wire (MB)", 1e6, ",.1f"),
    "num_means": Metric("means M", 1.0, ",.0f"),
    "seconds": Metric("seconds", 1.0, ",.1f"),
    "means_received": Metric("means received per class", 1.0, ".1f"),
    "condition_within": Metric("condition of G_with", 1.0, ".1e"),
    "condition_between": Metric("condition of G_btw", 1.0, ".1e"),
}
"""The measured columns."""
