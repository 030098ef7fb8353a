"""What an experiment is: data, not a script."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from fedcof.backbones import split_name, with_weights
from fedcof.data import Dealing
from fedcof.training import Round

if TYPE_CHECKING:
    from fedcof.experiments.clients import Clients

Figure = Literal["audit", "communication", "curves", "frontier", "noisy-counts", "rounds"]


@dataclass(frozen=True)
class Execution:
    """How a procedure is run, and what is asked of it.

    Parameters
    ----------
    metrics : tuple of str
        What the experiment shows, keys of `METRICS`: what is costly is measured only if shown.
    device : str, default "cpu"
        Where torch computes.
    checkpoint : Path, optional
        The file that keeps a training which is not finished.
    on_round : callable
        Called after every round.
    """

    metrics: tuple[str, ...] = ("accuracy",)
    device: str = "cpu"
    checkpoint: Path | None = None
    on_round: Callable[[Round], None] = lambda _: None


@dataclass(frozen=True)
class Procedure(ABC):
    """What is done with the clients' data; its fields are its settings.

    A new procedure is a new subclass in a file of its own.
    """

    @property
    def trains(self) -> bool:
        """Whether it has rounds of training, which a short run cuts."""
        return False

    @property
    def needs_gpu(self) -> bool:
        """Whether all of its rounds would take days on a CPU."""
        return False

    def shortened(self, rounds: int) -> Self:
        """Return the procedure with at most so many rounds of training."""
        return self

    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """Return the procedure as columns of a row; "method" is what a table calls it."""

    @abstractmethod
    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Run it with the seed of the clients, and return what was measured."""


@dataclass(frozen=True)
class Setting:
    """One point of a grid; with a seed, one row of results."""

    dataset: str
    backbone: str
    dealing: Dealing
    procedure: Procedure

    def columns(self) -> dict[str, Any]:
        """Return the setting as columns of a row of results."""
        backbone, weights = split_name(self.backbone)
        columns = {
            "dataset": self.dataset,
            "backbone": backbone,
            **({"weights": weights} if weights else {}),
            **self.dealing.columns(),
            **self.procedure.columns(),
        }
        columns.pop("seed", None)  # a row has its own
        return columns


@dataclass(frozen=True)
class SettingGrid:
    """Every data set under every backbone, dealt in every way, for every procedure."""

    datasets: tuple[str, ...]
    backbones: tuple[str, ...]
    dealings: tuple[Dealing, ...]
    procedures: tuple[Procedure, ...]

    def __iter__(self) -> Iterator[Setting]:
        """Yield the settings; those of one data set and backbone are neighbours."""
        for point in product(self.datasets, self.backbones, self.dealings, self.procedures):
            yield Setting(*point)


@dataclass(frozen=True)
class Paper:
    """Numbers of the paper, copied: a mean, with a standard deviation where there is one.

    Parameters
    ----------
    metric : str
        A key of `METRICS`.
    columns : tuple of str
        Which columns of a setting name a cell.
    cells : mapping of tuple to number or pair of numbers
        In the metric's unit.
    """

    metric: str
    columns: tuple[str, ...]
    cells: Mapping[tuple[Any, ...], float | tuple[float, float]]

    def find(self, setting: Mapping[str, Any]) -> tuple[float, float | None] | None:
        """Return mean and deviation of the cell that a setting's columns name."""
        cell = self.cells.get(tuple(setting.get(column) for column in self.columns))
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
    grids : tuple of SettingGrid
        What is run. ``--dataset`` of a set that no grid names takes the first.
    paper : tuple of Paper
        The paper's numbers.
    metrics : tuple of str
        What is shown, keys of `METRICS`.
    figure : {"audit", "communication", "curves", "frontier", "noisy-counts", "rounds"}, optional
        How it is drawn.
    x, lines : str
        For curves, also those of noisy counts: the column on the x axis, and the column whose
        values are the lines.
    seeds : int
        How many; they are 0, 1, 2, ...
    notes : tuple of str
        What a reader has to know.
    findings : mapping
        What our numbers say, by data set and backbone: a tuple of str that stands beside them.
    short_rounds : int, optional
        The rounds of training after which a short run stops; None for the whole experiment.
    """

    name: str
    title: str
    grids: tuple[SettingGrid, ...]
    paper: tuple[Paper, ...] = ()
    metrics: tuple[str, ...] = ("accuracy",)
    figure: Figure | None = None
    x: str = ""
    lines: str = ""
    seeds: int = 5
    notes: tuple[str, ...] = field(default=())
    findings: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    short_rounds: int | None = None

    def settings(self) -> list[Setting]:
        """Return all points of all grids."""
        return [setting for grid in self.grids for setting in grid]

    def columns(self, setting: Setting) -> dict[str, Any]:
        """Return a setting's columns; those of a short run are not those of the whole."""
        short = {} if self.short_rounds is None else {"short_rounds": self.short_rounds}
        return setting.columns() | short

    def on(self, dataset: str | None, backbone: str | None, weights: str = "") -> Experiment:
        """Return the experiment on one data set or backbone, be it the paper's or not.

        Parameters
        ----------
        dataset, backbone : str or None
            None for all of the experiment. A table of features is of no backbone: under the name ""
            it is run once.
        weights : str, default ""
            Where those of every backbone are from, as `fedcof.backbones.with_weights` takes it.
        """
        grids = self.grids
        if dataset is not None:
            grids = tuple(g for g in grids if dataset in g.datasets) or grids[:1]
            grids = tuple(replace(grid, datasets=(dataset,)) for grid in grids)
        if backbone is not None:
            grids = tuple(replace(grid, backbones=(backbone,)) for grid in grids)
        if weights:
            grids = tuple(
                replace(grid, backbones=tuple(with_weights(b, weights) for b in grid.backbones))
                for grid in grids
            )
        return replace(self, grids=grids)

    def shortened(self, rounds: int) -> Experiment:
        """Return a short run: some rounds of training, everything else as it is declared.

        Its rows are kept apart from those of the whole experiment, and no numbers of the paper
        stand beside them.

        Raises
        ------
        ValueError
            If the experiment trains nothing.
        """
        if not any(setting.procedure.trains for setting in self.settings()):
            raise ValueError(f"{self.name} trains nothing: there are no rounds to cut")
        return replace(
            self,
            title=f"{self.title} (short run)",
            grids=tuple(
                replace(grid, procedures=tuple(p.shortened(rounds) for p in grid.procedures))
                for grid in self.grids
            ),
            paper=(),
            metrics=("accuracy", "formula_bytes", "wire_bytes", "seconds"),
            figure=None,
            seeds=1,
            notes=(
                f"A short run: training stops after {rounds} rounds. It shows that all is there "
                "and works, and what it takes; the accuracies after training say nothing.",
            ),
            findings={},
            short_rounds=rounds,
        )


class Metric(NamedTuple):
    """How a column of the results is shown: its name, its unit's size, and a format.

    Ours is set beside the paper's as a difference, or, where it may be orders of magnitude away, as
    a ratio.
    """

    title: str
    unit: float
    format: str
    compared_by: Literal["difference", "ratio"] = "difference"


METRICS = {
    "accuracy": Metric("accuracy (%)", 0.01, ".1f"),
    "balanced_accuracy": Metric("balanced accuracy (%)", 0.01, ".1f"),
    "log_loss": Metric("log loss", 1.0, ".3f"),
    "expected_calibration_error": Metric("expected calibration error (%)", 0.01, ".1f"),
    "train_accuracy": Metric("training accuracy (%)", 0.01, ".1f"),
    "formula_bytes": Metric("sent (MB)", 1e6, ",.1f"),
    "wire_bytes": Metric("on the wire (MB)", 1e6, ",.1f"),
    "multiple": Metric("× FedCOF's bytes", 1.0, ",.2f"),
    "client_seconds": Metric("seconds of a client", 1.0, ".3f"),
    "server_seconds": Metric("seconds of the server", 1.0, ".2f"),
    "found_at_1": Metric("found at 1 % false (%)", 0.01, ".1f"),
    "attack_area": Metric("area under ROC", 1.0, ".3f"),
    "measured_epsilon": Metric("ε measured, at least", 1.0, ".2f"),
    "num_means": Metric("means M", 1.0, ",.0f"),
    "seconds": Metric("seconds", 1.0, ",.1f"),
    "means_received": Metric("means received per class", 1.0, ".1f"),
    "bias_ratio": Metric("bias / G_with", 1.0, ".1f"),
    "predicted_loss": Metric("loss that the bias predicts (points)", 0.01, ".1f"),
    "directions_cut": Metric("directions cut", 1.0, ",.0f"),
    "condition_within": Metric("condition of G_with", 1.0, ".1e", "ratio"),
    "condition_between": Metric("condition of G_btw", 1.0, ".1e", "ratio"),
}
"""The measured columns that a table can show."""
