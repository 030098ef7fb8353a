"""The rounds of several seeds, averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcof.experiments import METRICS, Row

_ACCURACY, _BYTES = METRICS["accuracy"], METRICS["formula_bytes"]


class After(NamedTuple):
    """Where the runs stand after a round: megabytes, per cent, and NaN as deviation of one seed."""

    round: int
    stage: str
    sent_mb: float
    accuracy: float
    deviation: float


@dataclass(frozen=True)
class Average:
    """The rounds of a setting, over its seeds.

    Parameters
    ----------
    rounds : list of After
        From round 0, the start, where nothing comes before the training; else from round 1.
    training_free : int
        So many of the first rounds come before a training; 0 where none follows.
    """

    rounds: list[After]
    training_free: int


def average(rows: Sequence[Row]) -> Average:
    """Return the mean of the rounds of some rows.

    A stage that is shorter with one seed than with another stays at its last values.
    """
    runs: list[list[dict[str, Any]]] = [row.measured["rounds"] for row in rows]
    free = _mean([[after for after in run if after["stage"] == "training-free"] for run in runs])
    trained = _mean([[after for after in run if after["stage"] == "training"] for run in runs])
    if len(free) and len(trained):
        trained = trained[1:]  # training starts where the rounds before it end
    first = 1 if len(free) else 0
    stages = ["training-free"] * len(free) + ["training"] * len(trained)
    rounds = [
        After(number, stage, *values)
        for number, (stage, values) in enumerate(
            zip(stages, np.concatenate([free, trained]).tolist(), strict=True), start=first
        )
    ]
    return Average(rounds, len(free) if len(trained) else 0)


def _mean(runs: Sequence[Sequence[Mapping[str, Any]]]) -> NDArray[np.float64]:
    """Return megabytes, accuracy and its deviation after every round of a stage, shape (n, 3)."""
    longest = max(map(len, runs))
    if longest == 0:
        return np.empty((0, 3))
    padded = [[*run, *[run[-1]] * (longest - len(run))] for run in runs]
    accuracy, sent = (
        np.array([[after[name] for after in run] for run in padded]) / metric.unit
        for name, metric in (("accuracy", _ACCURACY), ("formula_bytes", _BYTES))
    )
    deviation = accuracy.std(axis=0, ddof=1) if len(runs) > 1 else np.full(longest, np.nan)
    return np.stack([sent.mean(axis=0), accuracy.mean(axis=0), deviation], axis=1)
