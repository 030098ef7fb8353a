"""Partial results computed in threads: Python's lock is free while NumPy and BLAS compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle

import joblib

from fedcof.pipeline import ahead
from fedcof.scale.solving import Fragment, Result, Task

_WAITING = 1
"""Results of a thread that wait while others are added."""


def in_threads(task: Task, fragments: Iterable[Fragment]) -> Iterator[Result]:
    """Compute in as many threads as there are cores: an engine for fragments of one process."""
    dealt = list(fragments)
    threads = min(joblib.cpu_count(), len(dealt))
    lanes = [ahead(map(task, dealt[k::threads]), _WAITING) for k in range(threads)]
    try:
        for _, lane in zip(dealt, cycle(lanes), strict=False):
            yield next(lane)
    finally:
        for lane in lanes:
            lane.close()
