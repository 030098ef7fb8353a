"""The sums of a run in its run folder: totals alone, and over which clients they are.

Two sums over sets of clients that differ tell what the difference adds. So it is written down over
whom a sum is before the masks are opened: a server that is stopped then begins that sum again over
the same clients, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import CorruptBytesError, RunFolderError
from fedcof.files import write_atomically
from fedcof.wire import decode, encode


@dataclass(frozen=True)
class KeptSum:
    """A sum of a run folder.

    Parameters
    ----------
    clients : frozenset of str
        Over whom it is, or would have been.
    called : int
        How many clients were called, by which the numbers are scaled.
    dim : int
        Length of a feature.
    origin : mapping of str to str
        What made the features of all of them.
    totals : mapping of str to ndarray of float64
        Empty where the server was stopped before it had them.
    """

    clients: frozenset[str]
    called: int
    dim: int
    origin: Mapping[str, str]
    totals: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


@dataclass(frozen=True)
class KeptSums:
    """The sums of a run folder, one for each phase of the method."""

    folder: Path

    def read(self, phase: int) -> KeptSum | None:
        """Return the sum of a phase, None where none was begun to be opened.

        Raises
        ------
        RunFolderError
            If its file is damaged.
        """
        path = self._path(phase)
        try:
            arrays, known = decode(path.read_bytes())
            clients = frozenset(known.pop("clients"))
            return KeptSum(clients, **known, totals=arrays)
        except FileNotFoundError:
            return None
        except (CorruptBytesError, KeyError, TypeError) as error:
            raise RunFolderError(f"{path} cannot be read, it is damaged: {error}") from None

    def write(self, phase: int, kept: KeptSum) -> None:
        """Keep over whom the sum of a phase is, and its totals where they are known."""
        known = {
            "clients": sorted(kept.clients),
            "called": kept.called,
            "dim": kept.dim,
            "origin": dict(kept.origin),
        }
        write_atomically(self._path(phase), encode(kept.totals, known))

    def _path(self, phase: int) -> Path:
        return self.folder / f"sum-{phase + 1}.safetensors"
