"""Run an experiment: every setting with every seed, nothing twice that is among the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from fedcof.data import Dealing
from fedcof.errors import NotRunError, first_of
from fedcof.experiments.clients import Clients, Source
from fedcof.experiments.experiment import Execution, Experiment, Setting
from fedcof.experiments.features import FeatureSet
from fedcof.experiments.groups import Cell, Failed, Group, in_processes, measure_group, why
from fedcof.experiments.results import Results, Row, Skipped, partition_name
from fedcof.progress import Advance, progress_bar
from fedcof.training import Round


def run(
    experiments: Sequence[Experiment],
    results: Results,
    load: Callable[[str, str], FeatureSet],
    *,
    seeds: int | None = None,
    device: str = "cpu",
    workers: int = 1,
) -> None:
    """Run what is not among the results yet, and add it to them row by row.

    What cannot be run, or fails, is kept beside them with the reason, and the others go on.

    Parameters
    ----------
    experiments : sequence of Experiment
        What several of them need of one data set, such as what its clients send, is made once.
    results : Results
    load : callable
        From the names of a data set and a backbone to their features.
    seeds : int, optional
        Default: that of each experiment.
    device : str, default "cpu"
        Where torch trains.
    workers : int, default 1
        How many processes measure at the same time what trains nothing. The rows are the same,
        but for their order.
    """
    runner = _Runner(results, device, workers)
    for experiment in experiments:
        numbers = range(experiment.seeds if seeds is None else seeds)
        for setting in experiment.settings():
            for seed in numbers:
                runner.plan(experiment, setting, seed)
    for dataset, backbone in runner.places:
        runner.run_place(dataset, backbone, load)
    for experiment in experiments:
        of_this = experiment.name, experiment.short_rounds
        found = [entry for entry in runner.skipped if entry[:2] == of_this]
        results.skip(*of_this, found)


@dataclass
class _Runner:
    """What is pending, by data set and backbone and by how it is dealt."""

    results: Results
    device: str
    workers: int
    places: dict[tuple[str, str], dict[tuple[Dealing, int], list[Cell]]] = field(
        default_factory=dict
    )
    skipped: dict[Skipped, None] = field(default_factory=dict)
    """As keys, each once and in order."""

    def plan(self, experiment: Experiment, setting: Setting, seed: int) -> None:
        """Add a setting with a seed to what is pending, unless it is among the results."""
        row = Row(experiment.name, seed, experiment.columns(setting))
        if row in self.results:
            return
        groups = self.places.setdefault((setting.dataset, setting.backbone), {})
        cells = groups.setdefault((setting.dealing, seed), [])
        cells.append(Cell(setting, experiment.metrics, row))

    def _skip(self, row: Row, dataset: str, backbone: str, reason: str) -> None:
        entry = Skipped(row.experiment, row.short_rounds, dataset, backbone, reason)
        self.skipped[entry] = None

    def run_place(
        self, dataset: str, backbone: str, load: Callable[[str, str], FeatureSet]
    ) -> None:
        """Run what is pending on one data set under one backbone."""
        groups = [
            Group(dealing, seed, tuple(cells))
            for (dealing, seed), cells in self.places[dataset, backbone].items()
        ]
        rows = [cell.row for group in groups for cell in group.cells]
        try:
            source = Source(load(dataset, backbone), backbone)
        except Exception as error:
            for row in rows:
                self._skip(row, dataset, backbone, why(error))
            return
        self._keep_histograms(source, dataset, groups)
        names = list(dict.fromkeys(row.experiment for row in rows))
        title = f"{first_of(names, limit=1)}: {', '.join(filter(None, (dataset, backbone)))}"
        # Training has threads of its own, checkpoints, and rounds to show.
        alone = [group for group in groups if group.trains or self.workers == 1]
        shared = [group for group in groups if group not in alone]
        with progress_bar(title, len(rows), unit="runs") as advance:

            def take(outcome: Row | Failed, keep: Callable[[Row], None]) -> None:
                if isinstance(outcome, Row):
                    keep(outcome)
                else:
                    self._skip(outcome.row, dataset, backbone, outcome.reason)
                advance(1, title)

            for outcome in in_processes(source, shared, self.results.path, self.workers):
                take(outcome, self.results.add)
            for group in alone:
                execution = partial(self._execution, advance, title)
                for outcome in measure_group(source, group, execution):
                    take(outcome, self.results.append)

    def _keep_histograms(self, source: Source, dataset: str, groups: list[Group]) -> None:
        for group in groups:
            if group.seed == 0:
                with suppress(Exception):  # it is told where the group is measured
                    histogram = Clients(source, group.dealing, group.seed).histogram()
                    name = partition_name({"dataset": dataset, **group.dealing.columns()})
                    self.results.keep_histogram(name, histogram)

    def _execution(self, advance: Advance, title: str, cell: Cell) -> Execution:
        """Return how a row is measured in this process."""
        whole = cell.row.short_rounds is None
        if cell.setting.procedure.needs_gpu and whole and self.device == "cpu":
            raise NotRunError(
                "training the network takes days without a GPU: give --device cuda, or --rounds 2 "
                "for a short run"
            )
        return Execution(
            cell.metrics,
            self.device,
            self.results.checkpoint(cell.row),
            partial(_show_round, advance, f"{title}, {cell.row.setting['method']}"),
        )


def _show_round(advance: Advance, title: str, after: Round) -> None:
    advance(0, f"{title}, round {after.number}, {after.accuracy:.1%}")
