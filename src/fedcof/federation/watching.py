"""What a run says while it goes on: lines of its log, its status in a file, its metrics.

`Watch` is what `serving` and `server_app` talk to, and does nothing; `RunWatch` is that of a
deployment.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedcof.errors import reason_of
from fedcof.federation.status import ALIVE, ENDED, Status
from fedcof.settings import check_settings, setting

_POINTS = 400
"""Points of the timeline, above which every other one is left out."""


@dataclass(frozen=True)
class Watching:
    """Settings of how a run can be watched, and tried before."""

    dry_run: bool = setting(False, "Whether every site is only asked if it is ready.")
    log_json: bool = setting(False, "Whether every line of the log is a JSON object.")
    metrics_port: int = setting(
        0, "Port of the metrics for Prometheus; 0: none.", minimum=0, maximum=65535
    )
    metrics_host: str = setting("127.0.0.1", "Address at which the metrics are served.")

    def __post_init__(self) -> None:
        check_settings(self)


class Watch:
    """Takes what a run says; this one drops it."""

    def tell(self, text: str, *, event: str = "note", **fields: Any) -> None:
        """Say a line; `fields` are the same for programs."""

    def show(self, **changes: Any) -> None:
        """Change fields of the run's `Status`."""

    def look(self, counts: Callable[[], Mapping[str, Any]]) -> None:
        """Show what `counts` returns, but ask it only where the last time is a while ago."""


class RunWatch(Watch):
    """Prints lines, keeps the status in a file, and serves metrics if they are asked for.

    A thread writes the file, so that it tells of a run that it is alive whatever the run does. The
    status of a run before this one stays until there is something to show, and for good where this
    one is refused.

    Parameters
    ----------
    path : path
        The file of the status.
    settings : Watching
    write : callable
        Prints a line.
    now : callable
        The clock on the wall, in seconds.
    """

    def __init__(
        self,
        path: Path,
        settings: Watching,
        write: Callable[[str], None],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path, self._settings, self._write, self._now = path, settings, write, now
        self.status = Status(started=now(), updated=now())
        self._look_again = 0.0
        self._changed, self._over = threading.Event(), threading.Event()
        self._writer = threading.Thread(target=self._keep_writing, daemon=True)
        self._stack = ExitStack()
        self._inside = self._begun = False

    def __enter__(self) -> Self:
        if self._settings.metrics_port:
            from fedcof.federation.metrics import served

            address = self._settings.metrics_host, self._settings.metrics_port
            self._stack.enter_context(served(lambda: self.status, *address))
        self._inside = True
        if not self._path.exists():
            self._begin()
        return self

    def _begin(self) -> None:
        if self._inside and not self._begun:
            self._begun = True
            self._writer.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and self._begun:
            text = reason_of(error) if isinstance(error, Exception) else "it was stopped"
            self.show(state="failed", message=text)
        elif error is None and self.status.state not in ENDED:
            self.show(state="incomplete" if self.status.set_aside else "complete")
        self._over.set()
        self._changed.set()
        if self._begun:
            self._writer.join()
        self._stack.close()

    def tell(self, text: str, *, event: str = "note", **fields: Any) -> None:
        """Print a line, as a JSON object where that is asked for."""
        if not text and not self._settings.log_json:
            return  # it is for programs alone
        self.show(message=text or self.status.message)
        if self._settings.log_json:
            text = as_json(text, event=event, **fields)
        self._write(text)

    def show(self, **changes: Any) -> None:
        """Change the status; the file follows within a second."""
        answered = changes.get("answered", self.status.answered)
        timeline = self.status.timeline
        if not timeline or answered != timeline[-1][1]:
            point = (round(self._now() - self.status.started, 3), answered)
            timeline = (*(timeline[::2] if len(timeline) > _POINTS else timeline), point)
        self.status = replace(self.status, timeline=timeline, updated=self._now(), **changes)
        self._changed.set()
        self._begin()

    def look(self, counts: Callable[[], Mapping[str, Any]]) -> None:
        """Show the counts, at most once a second and in at most a twentieth of the time."""
        start = time.monotonic()
        if start < self._look_again:
            return
        before = self.status
        self.show(**counts())
        self._look_again = start + max(1.0, 20 * (time.monotonic() - start))
        if self._settings.log_json and progress(before) != progress(self.status):
            self.tell(self.status.state, event="progress", **progress(self.status))

    def _keep_writing(self) -> None:
        while not self._over.is_set():
            self._save()
            self._changed.wait(ALIVE)
            self._over.wait(1.0)
            self._changed.clear()
        self._save()

    def _save(self) -> None:
        with suppress(OSError):  # a full disk stops the run itself, with words of its own
            replace(self.status, updated=self._now()).save(self._path)


def progress(status: Status) -> dict[str, Any]:
    """Return what a progress bar shows of a status."""
    return {"settled": status.settled, "known": status.known, "online": status.online}


def as_json(text: str, *, event: str, **fields: Any) -> str:
    """Return a line of the structured log; a number that is not finite is null."""
    known = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }
    time_now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": time_now, "event": event, "message": text, **known}, default=str)
