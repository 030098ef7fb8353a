"""A bound on the memory that one answer may take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_STATUS = Path("/proc/self/status")

_COPIES = 8
"""How many times its own size an answer may take: Flower receives, parses and joins it."""

_ROOM = 2**29
"""What the process may grow by beside it: the threads in which Flower pulls an answer."""


@contextmanager
def bounded(size: int) -> Iterator[None]:
    """Let this process grow by no more than an answer of `size` bytes may take.

    Flower pulls an answer as a whole, however large it is. Beyond the bound that raises
    `MemoryError`, and what was pulled is freed. Only Linux has such a bound; elsewhere there is
    none.
    """
    used = _data()
    if resource is None or used is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = used + _COPIES * size + _ROOM
    limits = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([bound, *limits]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data() -> int | None:
    """Return the bytes of this process's data; None where the system does not say it."""
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:")), None)
