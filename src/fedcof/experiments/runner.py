"""Run an experiment: every setting with every seed, nothing twice that is among the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter

from fedcof.errors import NotRunError
from fedcof.experiments.clients import Clients, Source
from fedcof.experiments.experiment import Execution, Experiment, Setting
from fedcof.experiments.features import FeatureSet
from fedcof.experiments.groups import Group, in_processes, measure_group, reason_of
from fedcof.experiments.results import Results, Row, Skipped, partition_name
from fedcof.progress import Advance, progress_bar
from fedcof.training import Round


def run(
    experiment: Experiment,
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
    experiment : Experiment
    results : Results
    load : callable
        From the names of a data set and a backbone to their features.
    seeds : int, optional
        Default: the experiment's.
    device : str, default "cpu"
        Where torch trains.
    workers : int, default 1
        How many processes measure at the same time what trains nothing. The rows are the same,
        but for their order.
    """
    runner = _Runner(experiment, results, device, workers)
    numbers = range(experiment.seeds if seeds is None else seeds)
    place = attrgetter("dataset", "backbone")
    for (dataset, backbone), settings in groupby(experiment.settings(), key=place):
        groups = [
            Group(dealing, seed, pending)
            for dealing, dealt_alike in groupby(settings, key=attrgetter("dealing"))
            for same in [list(dealt_alike)]
            for seed in numbers
            if (
                pending := tuple(
                    (setting, row)
                    for setting in same
                    if (row := Row(experiment.name, seed, experiment.columns(setting)))
                    not in results
                )
            )
        ]
        if groups:
            with runner.or_skip(dataset, backbone):
                runner.run_place(dataset, backbone, load, groups)
    results.skip(experiment.name, experiment.short_rounds, list(dict.fromkeys(runner.skipped)))


@dataclass
class _Runner:
    """What the settings of an experiment have in common while they are run."""

    experiment: Experiment
    results: Results
    device: str
    workers: int
    skipped: list[Skipped] = field(default_factory=list)

    @contextmanager
    def or_skip(self, dataset: str, backbone: str) -> Iterator[None]:
        """Keep what cannot be run with the reason, and go on with what follows."""
        try:
            yield
        except Exception as error:
            self._skip(dataset, backbone, reason_of(error))

    def _skip(self, dataset: str, backbone: str, reason: str) -> None:
        place = self.experiment.name, self.experiment.short_rounds, dataset, backbone
        self.skipped.append(Skipped(*place, reason))

    def run_place(
        self,
        dataset: str,
        backbone: str,
        load: Callable[[str, str], FeatureSet],
        groups: list[Group],
    ) -> None:
        """Run what is pending on one data set under one backbone."""
        source = Source(load(dataset, backbone), backbone)
        title = f"{self.experiment.name}: {', '.join(filter(None, (dataset, backbone)))}"
        rows = sum(len(group.pending) for group in groups)
        with progress_bar(title, rows, unit="runs") as advance:

            def take(measured: Row | str) -> None:
                if isinstance(measured, Row):
                    self.results.append(measured)
                else:
                    self._skip(dataset, backbone, measured)
                advance(1, title)

            self._keep_histograms(source, dataset, groups)
            # Training has threads of its own, checkpoints, and rounds to show.
            alone = [group for group in groups if group.trains or self.workers == 1]
            shared = [group for group in groups if group not in alone]
            for measured in in_processes(source, shared, self.experiment.metrics, self.workers):
                take(measured)
            for group in alone:
                execution = partial(self._execution, advance, title)
                for measured in measure_group(source, group, execution):
                    take(measured)

    def _keep_histograms(self, source: Source, dataset: str, groups: list[Group]) -> None:
        for group in groups:
            if group.seed == 0:
                with suppress(Exception):  # it is told where the group is measured
                    histogram = Clients(source, group.dealing, group.seed).histogram()
                    name = partition_name({"dataset": dataset, **group.dealing.columns()})
                    self.results.keep_histogram(name, histogram)

    def _execution(self, advance: Advance, title: str, setting: Setting, row: Row) -> Execution:
        """Return how a row is measured in this process."""
        whole = self.experiment.short_rounds is None
        if setting.procedure.needs_gpu and whole and self.device == "cpu":
            raise NotRunError(
                "training the network takes days without a GPU: give --device cuda, or --rounds 2 "
                "for a short run"
            )
        return Execution(
            self.experiment.metrics,
            self.device,
            self.results.checkpoint(row),
            partial(_show_round, advance, f"{title}, {row.setting['method']}"),
        )


def _show_round(advance: Advance, title: str, after: Round) -> None:
    advance(0, f"{title}, round {after.number}, {after.accuracy:.1%}")
