"""How far a run is: what its server writes into the run folder, for whoever watches.

`Status` is one JSON file that is replaced whole, so it can be read at any moment, while the run
goes on and after it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fedcof import __version__
from fedcof.errors import RunFolderError
from fedcof.files import write_atomically

STATUS = "status.json"

ALIVE = 5.0
"""Seconds within which a run that goes on writes its status again."""

_SILENT = 12 * ALIVE
_RECENT = 60.0

ENDED = ("complete", "incomplete", "failed")
"""States of a run that is over: all clients count, some were set aside, there is no result."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """How far a run is.

    Parameters
    ----------
    state : str
        "starting", "waiting" for clients, "collecting", "training", or one of `ENDED`.
    message : str
        The last thing that was said; of a run that failed, why.
    started, updated : float
        Seconds since 1970, by the server's clock.
    version : str
        Of fedcof at the server.
    rounds : int
        How many rounds of collecting this run has asked.
    known, asked, answered, resumed, waiting : int
        Clients: of the federation, asked in this run, let in, there from before, not settled yet.
    refused, missing : mapping of str to int
        How many clients, by the code and by the reason.
    misfit, odd : int
        Clients that were set aside beside the others, and those that count though they are odd.
    nodes, online, unnamed : int
        SuperNodes that were seen, that are connected, and that named no clients, such as where
        their data cannot be read.
    faults : mapping of str to str
        What was wrong with SuperNodes, by their ids.
    classes : mapping of str to int
        How many clients hold each class.
    wire_bytes : int
        What the summaries took on the wire in this run.
    timeline : sequence of (float, int)
        Seconds since the start, and how many clients had answered by then.
    training : mapping
        The last round of training, where there is one: its number, clients, loss, accuracy.
    accuracy : float, optional
        Of the head, where the server has a test set.
    """

    state: str = "starting"
    message: str = ""
    started: float = 0.0
    updated: float = 0.0
    version: str = __version__
    rounds: int = 0
    known: int = 0
    asked: int = 0
    answered: int = 0
    resumed: int = 0
    waiting: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    misfit: int = 0
    odd: int = 0
    unnamed: int = 0
    nodes: int = 0
    online: int = 0
    faults: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, int] = field(default_factory=dict)
    wire_bytes: int = 0
    timeline: tuple[tuple[float, int], ...] = ()
    training: Mapping[str, Any] = field(default_factory=dict)
    accuracy: float | None = None

    @property
    def settled(self) -> int:
        """How many clients nothing more is expected of."""
        set_aside = sum(self.refused.values()) + sum(self.missing.values())
        return self.answered + self.resumed + set_aside

    @property
    def set_aside(self) -> int:
        """How many clients do not count, for whatever reason, with SuperNodes that named none."""
        clients = sum(self.refused.values()) + self.misfit + sum(self.missing.values())
        return clients + self.unnamed

    @property
    def rate(self) -> float:
        """Clients that answered a second, over the last minute in which any did."""
        if len(self.timeline) < 2:
            return 0.0
        end, done = self.timeline[-1]
        start, before = next(
            (point for point in self.timeline if point[0] >= end - _RECENT), self.timeline[0]
        )
        if start == end:
            start, before = self.timeline[-2]
        return (done - before) / (end - start) if end > start else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all clients have answered at this rate; None where it is not known."""
        if self.state != "collecting" or not self.rate:
            return None
        return self.waiting / self.rate

    def silent_for(self, now: float | None = None) -> float:
        """Return for how many seconds a run that should go on has said nothing; else 0."""
        silence = (time.time() if now is None else now) - self.updated
        return silence if self.state not in ENDED and silence > _SILENT else 0.0

    def save(self, path: Path) -> None:
        """Write the status as JSON."""
        write_atomically(path, f"{json.dumps(asdict(self), sort_keys=True)}\n".encode())

    def to_document(self) -> dict[str, Any]:
        """Return the status as JSON has it, with what follows from it."""
        return {
            **asdict(self),
            "settled": self.settled,
            "set_aside": self.set_aside,
            "rate": self.rate,
            "seconds_left": self.seconds_left,
            "silent_for": self.silent_for(),
        }


def read_status(folder: Path) -> Status:
    """Return the status of the run that has a run folder.

    Raises
    ------
    RunFolderError
        If there is none, or it was written by another version that has other fields.
    """
    path = folder / STATUS
    try:
        content = json.loads(path.read_bytes())
        known = {item.name for item in fields(Status)}
        status = Status(**{name: value for name, value in content.items() if name in known})
    except FileNotFoundError:
        raise RunFolderError(
            f"{folder} has no {STATUS}: it is no run folder, or its run has not begun; name the "
            "run-folder of the run, on the SuperLink's machine"
        ) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise RunFolderError(f"{path} cannot be read ({error})") from None
    return status
