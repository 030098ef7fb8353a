"""The one style of progress bar: description, bar, count, rate, time left."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _RateColumn(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if speed is None:  # done in one step, as features that are there already are
            return Text()
        rate = f"{speed:,.0f}" if speed >= 10 else f"{speed:.2g}"
        return Text(f"{rate} {self.unit}/s", style="progress.data.speed")


class Advance(Protocol):
    """Moves a progress bar."""

    def __call__(
        self, steps: int, description: str | None = None, /, *, total: int | None = None
    ) -> None:
        """Count ``steps`` more as done; say something else before the bar, if given.

        A ``total`` takes the place of what was known of it before.
        """


@contextmanager
def progress_bar(
    description: str, total: int | None, *, unit: str, console: Console | None = None
) -> Iterator[Advance]:
    """Show a progress bar while the block runs.

    Parameters
    ----------
    description : str
        What is being done, e.g. ``"Extracting features"``.
    total : int or None
        Number of steps; None if it is not known (the bar then pulses).
    unit : str
        What a step is, in the plural, e.g. ``"images"``.
    console : rich.console.Console, optional
        Where to draw. Default: standard error, so that standard output stays clean.

    Yields
    ------
    Advance
        ``advance(steps)``, to call after ``steps`` more steps are done.

    Examples
    --------
    >>> with progress_bar("Extracting features", 3, unit="images") as advance:
    ...     advance(3)
    """
    columns = (
        TextColumn("{task.description}", markup=False),  # it names other people's files
        BarColumn(),
        MofNCompleteColumn(),
        _RateColumn(unit),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console or Console(stderr=True)) as progress:
        task = progress.add_task(description, total=total)

        def advance(
            steps: int, description: str | None = None, /, *, total: int | None = None
        ) -> None:
            progress.update(task, advance=steps, description=description, total=total)

        yield advance
