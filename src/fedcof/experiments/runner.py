"""Run an experiment: every setting with every seed, nothing twice that is among the results."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
import scipy
import sklearn

import fedcof
from fedcof.data import Dealing
from fedcof.errors import FedCOFError, NotRunError, SingularScatterWarning
from fedcof.experiments.clients import Clients, Source
from fedcof.experiments.experiment import Execution, Experiment, Setting
from fedcof.experiments.features import FeatureSet
from fedcof.experiments.results import Results, Row, Skipped, partition_name
from fedcof.progress import Advance, progress_bar
from fedcof.training import Round

VERSIONS = {
    "fedcof": fedcof.__version__,
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__,
}


def run(
    experiment: Experiment,
    results: Results,
    load: Callable[[str, str], FeatureSet],
    *,
    seeds: int | None = None,
    device: str = "cpu",
) -> None:
    """Run what is not among the results yet, and add it to them row by row.

    What cannot be run is kept beside them with the reason.

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
    """
    runner = _Runner(experiment, results, device)
    numbers = range(experiment.seeds if seeds is None else seeds)
    place = attrgetter("dataset", "backbone")
    for (dataset, backbone), settings in groupby(experiment.settings(), key=place):
        pending = [
            (setting, row)
            for _, group in groupby(settings, key=attrgetter("dealing"))
            for dealt_alike in [list(group)]
            for seed in numbers
            for setting in dealt_alike
            if (row := Row(experiment.name, seed, experiment.columns(setting))) not in results
        ]
        if pending:
            with runner.or_skip(dataset, backbone):
                runner.run_place(dataset, backbone, load, pending)
    results.skip(experiment.name, experiment.short_rounds, list(dict.fromkeys(runner.skipped)))


@dataclass
class _Runner:
    """What the settings of an experiment have in common while they are run."""

    experiment: Experiment
    results: Results
    device: str
    skipped: list[Skipped] = field(default_factory=list)

    @contextmanager
    def or_skip(self, dataset: str, backbone: str) -> Iterator[None]:
        """Keep what cannot be run with the reason, and go on with what follows."""
        try:
            yield
        except (FedCOFError, ValueError, OSError, ImportError) as error:
            place = self.experiment.name, self.experiment.short_rounds, dataset, backbone
            self.skipped.append(Skipped(*place, str(error)))

    def run_place(
        self,
        dataset: str,
        backbone: str,
        load: Callable[[str, str], FeatureSet],
        pending: list[tuple[Setting, Row]],
    ) -> None:
        """Run what is pending on one data set under one backbone."""
        if self.experiment.waits_for:
            raise NotRunError(self.experiment.waits_for)
        source = Source(load(dataset, backbone), backbone)
        title = f"{self.experiment.name}: {', '.join(filter(None, (dataset, backbone)))}"
        with progress_bar(title, len(pending), unit="runs") as advance:
            for (dealing, seed), group in groupby(pending, key=_dealing_and_seed):
                with self.or_skip(dataset, backbone):
                    clients = Clients(source, dealing, seed)
                    if seed == 0:
                        name = partition_name({"dataset": dataset, **dealing.columns()})
                        self.results.keep_histogram(name, clients.histogram())
                    for setting, row in group:
                        with self.or_skip(dataset, backbone):
                            self.run_row(setting, row, clients, advance, title)
                        advance(1, title)

    def run_row(
        self, setting: Setting, row: Row, clients: Clients, advance: Advance, title: str
    ) -> None:
        """Measure a row and add it to the results."""
        whole = self.experiment.short_rounds is None
        if setting.procedure.needs_gpu and whole and self.device == "cpu":
            raise NotRunError(
                "training the network takes days without a GPU: give --device cuda, or --rounds 2 "
                "for a short run"
            )
        execution = Execution(
            self.experiment.metrics,
            self.device,
            self.results.checkpoint(row),
            partial(_show_round, advance, f"{title}, {row.setting['method']}"),
        )
        self.results.append(replace(row, measured=_measure(setting, clients, execution)))


def _dealing_and_seed(pending: tuple[Setting, Row]) -> tuple[Dealing, int]:
    setting, row = pending
    return setting.dealing, row.seed


def _measure(setting: Setting, clients: Clients, execution: Execution) -> dict[str, Any]:
    """Return the measured columns of a row: the procedure's, and those that all rows have."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Some grids have singular scatters on purpose: no shrinkage, few means, G_btw alone.
        warnings.simplefilter("ignore", SingularScatterWarning)
        measured = setting.procedure.measure(clients, execution)
    dealt = clients.dealt
    return {
        **measured,
        "clients_seen": sum(len(rows) > 0 for _, rows in dealt.partition),
        "samples": len(dealt.features),
        "dim": dealt.features.shape[1],
        "seconds": time.perf_counter() - start,
        "fingerprint": clients.source.data.fingerprint,
        "versions": VERSIONS,
    }


def _show_round(advance: Advance, title: str, after: Round) -> None:
    advance(0, f"{title}, round {after.number}, {after.accuracy:.1%}")
