"""A step of a sum is taken once, whatever becomes of the process that takes it.

Flower gives a SuperNode's state back to it after the answer has gone, so an answer may be out while
the state still says that it is not: where the process is killed in between, or the next question is
there already. A client that took a step twice could be made to open its own masks. So a step is
noted in a file before it is taken. Nothing secret is in the files: keys are in the SuperNode's
memory alone, and a SuperNode that is started again takes no part in the sums that it had begun.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress

from fedcof.errors import SummaryError
from fedcof.files import cache_folder

_KEPT = 7 * 24 * 3600.0
"""Seconds after which nobody waits for an answer any more."""


def take_once(token: str, step: str) -> None:
    """Note that a client takes a step of a sum.

    Parameters
    ----------
    token : str
        What the client's keys for this sum are known by; it drew it with them.
    step : str

    Raises
    ------
    SummaryError
        If it took the step before, or the note cannot be written.
    """
    folder = cache_folder() / "secure-sums" / token
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / step).touch(exist_ok=False)
    except FileExistsError:
        raise SummaryError("asked-twice", f"the step {step!r} of this sum was taken") from None
    except OSError as error:
        raise SummaryError(
            "no-notes", f"{folder} cannot be written ({error.strerror}), so nothing is sent"
        ) from None


def forget_old(now: float | None = None) -> None:
    """Remove the notes of sums that ended long ago."""
    moment = time.time() if now is None else now
    for folder in (cache_folder() / "secure-sums").glob("*"):
        with suppress(OSError):
            if folder.stat().st_mtime < moment - _KEPT:
                shutil.rmtree(folder)
