"""What the benchmarks share: interleaved timing, peak memory, and how results are shown."""

from __future__ import annotations

import json
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Result:
    """One measured number and the bar that it must stay within, if it has one."""

    what: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def passed(self) -> bool | None:
        """Whether the bar is met; None where there is none."""
        if self.at_most is not None:
            return self.value <= self.at_most
        if self.at_least is not None:
            return self.value >= self.at_least
        return None


def interleaved_medians(
    repeats: int,
    *functions: Callable[[], object],
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return the median seconds of each function, called in turn: a busy machine slows them alike.

    The first call of each is not counted. With `time.process_time` as the clock, they are seconds
    of the processor.
    """
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats + 1):
        for function, taken in zip(functions, seconds, strict=True):
            start = clock()
            function()
            taken.append(clock() - start)
    return [median(taken[1:]) for taken in seconds]


def peak_memory(function: Callable[[], object]) -> tuple[int, int]:
    """Return by how many bytes a call raises the peak of the process, and of Python and NumPy.

    The first counts all pages, those of BLAS too, and only means something in a fresh process.
    """
    resident = peak_resident()
    function()
    resident = peak_resident() - resident
    tracemalloc.start()
    function()
    _, allocated = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return resident, allocated


def peak_resident() -> int:
    """Return the peak memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def show(title: str, settings: Mapping[str, Any], results: list[Result], as_json: bool) -> None:
    """Print the results as a table, or as one JSON object."""
    if as_json:
        rows = [{**asdict(result), "passed": result.passed} for result in results]
        print(json.dumps({"benchmark": title, "settings": settings, "results": rows}, indent=2))
        return
    caption = ", ".join(f"{name} {value}" for name, value in settings.items())
    table = Table("what", "measured", "bar", "", title=title, caption=caption)
    for result in results:
        bar = result.at_most if result.at_most is not None else result.at_least
        sign = "" if bar is None else f"{'≤' if result.at_most is not None else '≥'} {bar:.4g}"
        verdict = {True: "[green]met", False: "[red]missed", None: ""}[result.passed]
        table.add_row(result.what, f"{result.value:.4g} {result.unit}", sign, verdict)
    Console().print(table)
