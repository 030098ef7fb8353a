"""Settings that share what their clients send, measured here or in processes side by side."""

from __future__ import annotations

import logging
import platform
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import scipy
import sklearn

import fedcof
from fedcof.data import Dealing
from fedcof.errors import FedCOFError, SingularScatterWarning, reason_of
from fedcof.experiments.clients import Clients, Source
from fedcof.experiments.experiment import Execution, Setting
from fedcof.experiments.features import FeatureSet
from fedcof.experiments.results import Row, append_row

VERSIONS = {
    "fedcof": fedcof.__version__,
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__,
}

_log = logging.getLogger(__name__)

_SHARED_FROM = 1 << 16
"""Bytes from which an array is in a file that the processes map, not in the message to each."""


class Cell(NamedTuple):
    """A setting with a seed.

    Parameters
    ----------
    setting : Setting
    metrics : tuple of str
        What its experiment shows.
    row : Row
        What names it among the results; nothing is measured yet.
    """

    setting: Setting
    metrics: tuple[str, ...]
    row: Row


class Failed(NamedTuple):
    """A row that could not be measured, and why."""

    row: Row
    reason: str


@dataclass(frozen=True, eq=False)
class Group:
    """Cells that are dealt alike with one seed, so that they share what the clients send."""

    dealing: Dealing
    seed: int
    cells: tuple[Cell, ...]

    @property
    def trains(self) -> bool:
        """Whether one of the settings has rounds of training."""
        return any(cell.setting.procedure.trains for cell in self.cells)


def measure_group(
    source: Source, group: Group, execution: Callable[[Cell], Execution]
) -> Iterator[Row | Failed]:
    """Yield the rows of a group as they are measured."""
    try:
        clients = Clients(source, group.dealing, group.seed)
    except Exception as error:
        yield from (Failed(cell.row, why(error)) for cell in group.cells)
        return
    for cell in group.cells:
        try:
            measured = _measure(cell.setting, clients, execution(cell))
        except Exception as error:
            yield Failed(cell.row, why(error))
        else:
            yield replace(cell.row, measured=measured)


def in_processes(
    source: Source, groups: list[Group], path: Path, workers: int
) -> Iterator[Row | Failed]:
    """Yield what `measure_group` does for each of the groups, from processes side by side.

    They write every row themselves, so that none is lost where the run is stopped, and map the
    features for reading from files that all of them share. Where a process is killed, the groups
    that are not done are measured once more, one at a time; the one with which it is killed again
    has failed.

    Parameters
    ----------
    source : Source
    groups : list of Group
    path : Path
        The file to which rows are appended.
    workers : int
    """
    task = joblib.delayed(_measure_in_worker)
    # The images are of training alone, which is done in this process.
    place = _Place(uuid.uuid4().hex, replace(source.data, images=None), source.backbone, path)
    # The largest first, so that none of them is begun when the others are done.
    pending = dict(enumerate(sorted(groups, key=lambda group: -len(group.cells))))

    def measured(numbers: Iterable[int]) -> Iterator[Row | Failed]:
        parallel = joblib.Parallel(
            workers, return_as="generator_unordered", max_nbytes=_SHARED_FROM, batch_size=1
        )
        for number, outcomes in parallel(task(n, pending[n], place) for n in numbers):
            del pending[number]
            yield from outcomes

    try:
        yield from measured(list(pending))
    except BrokenProcessPool:
        for number in list(pending):
            try:
                yield from measured([number])
            except BrokenProcessPool:
                reason = "the process that measured it was killed; was there too little memory?"
                yield from (Failed(cell.row, reason) for cell in pending.pop(number).cells)


class _Place(NamedTuple):
    """What a worker makes a source of, with a name that no other place has."""

    name: str
    data: FeatureSet
    backbone: str
    path: Path


_sources: dict[str, Source] = {}
"""In a worker: the source of the last place, with what its groups share."""


def _measure_in_worker(number: int, group: Group, place: _Place) -> tuple[int, list[Row | Failed]]:
    if place.name not in _sources:
        _sources.clear()
        _sources[place.name] = Source(place.data, place.backbone)
    outcomes = []
    for outcome in measure_group(_sources[place.name], group, lambda cell: Execution(cell.metrics)):
        if isinstance(outcome, Row):
            append_row(place.path, outcome)
        outcomes.append(outcome)
    return number, outcomes


def why(error: Exception) -> str:
    """Return why something could not be measured; of what is nobody's doing, the type too."""
    if isinstance(error, (FedCOFError, ValueError, OSError, ImportError)):
        return reason_of(error)
    _log.info("cannot be measured", exc_info=error)
    return f"{type(error).__name__}: {error}"


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
