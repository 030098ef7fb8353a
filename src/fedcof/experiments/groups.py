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
from typing import Any, NamedTuple

import joblib
import numpy as np
import scipy
import sklearn

import fedcof
from fedcof.data import Dealing
from fedcof.errors import FedCOFError, SingularScatterWarning
from fedcof.experiments.clients import Clients, Source
from fedcof.experiments.experiment import Execution, Setting
from fedcof.experiments.features import FeatureSet
from fedcof.experiments.results import Row

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


@dataclass(frozen=True, eq=False)
class Group:
    """Settings that are dealt alike with one seed, so that they share what the clients send.

    Parameters
    ----------
    dealing : Dealing
    seed : int
    pending : tuple of (Setting, Row)
        The settings, each with its row, which has nothing measured yet.
    """

    dealing: Dealing
    seed: int
    pending: tuple[tuple[Setting, Row], ...]

    @property
    def trains(self) -> bool:
        """Whether one of the settings has rounds of training."""
        return any(setting.procedure.trains for setting, _ in self.pending)


def measure_group(
    source: Source, group: Group, execution: Callable[[Setting, Row], Execution]
) -> Iterator[Row | str]:
    """Yield the rows of a group as they are measured; for one that fails, the reason."""
    try:
        clients = Clients(source, group.dealing, group.seed)
    except Exception as error:
        yield from (reason_of(error) for _ in group.pending)
        return
    for setting, row in group.pending:
        try:
            measured = _measure(setting, clients, execution(setting, row))
        except Exception as error:
            yield reason_of(error)
        else:
            yield replace(row, measured=measured)


def in_processes(
    source: Source, groups: list[Group], metrics: tuple[str, ...], workers: int
) -> Iterator[Row | str]:
    """Yield what `measure_group` does for each of the groups, from processes side by side.

    The features are in files that all of them map for reading. Where a process is killed, the
    groups that are not done are measured once more, one at a time; the one with which it is killed
    again has failed.
    """
    task = joblib.delayed(_measure_in_worker)
    # The images are of training alone, which is done in this process.
    place = _Place(uuid.uuid4().hex, replace(source.data, images=None), source.backbone)
    pending = dict(enumerate(groups))

    def measured(numbers: Iterable[int]) -> Iterator[Row | str]:
        parallel = joblib.Parallel(
            workers, return_as="generator_unordered", max_nbytes=_SHARED_FROM, batch_size=1
        )
        for number, outcomes in parallel(task(n, pending[n], place, metrics) for n in numbers):
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
                yield from (reason for _ in pending.pop(number).pending)


class _Place(NamedTuple):
    """What a worker makes a source of, with a name that no other place has."""

    name: str
    data: FeatureSet
    backbone: str


_sources: dict[str, Source] = {}
"""In a worker: the source of the last place, with what its groups share."""


def _measure_in_worker(
    number: int, group: Group, place: _Place, metrics: tuple[str, ...]
) -> tuple[int, list[Row | str]]:
    if place.name not in _sources:
        _sources.clear()
        _sources[place.name] = Source(place.data, place.backbone)
    source, execution = _sources[place.name], Execution(metrics)
    return number, list(measure_group(source, group, lambda *_: execution))


def reason_of(error: Exception) -> str:
    """Return why something could not be measured, as words for people where the error has some."""
    if isinstance(error, (FedCOFError, ValueError, OSError, ImportError)):
        return str(error)
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
