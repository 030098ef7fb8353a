"""A run of training between two rounds, and the file that it goes on from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import CorruptBytesError, TrainingError
from fedcof.files import write_atomically
from fedcof.training.exchange import State
from fedcof.training.history import Round
from fedcof.training.server_optimizers import Moments
from fedcof.wire import decode, encode

_KIND = "training-2"


@dataclass(frozen=True, eq=False)
class Progress:
    """Where a run stands after a round.

    Parameters
    ----------
    state : dict of str to ndarray of float32
        The model of the last round.
    moments : mapping of str to state
        What the server's strategy remembers.
    rounds : tuple of Round
        What came before, the start, and the rounds of training.
    kept : dict of str to ndarray of float32
        The model that the run gives: that of the last round, or of the best.
    """

    state: State
    moments: Moments
    rounds: tuple[Round, ...]
    kept: State


def digest(state: State) -> str:
    """Return the SHA-256 of a state: its names and the bits of its numbers."""
    content = hashlib.sha256()
    for name, value in sorted(state.items()):
        content.update(name.encode() + value.tobytes())
    return content.hexdigest()


def save_checkpoint(path: Path, progress: Progress, run: Mapping[str, Any]) -> None:
    """Write where a run stands.

    Parameters
    ----------
    path : path
    progress : Progress
    run : mapping
        All that the numbers depend on, as JSON has it: a checkpoint of another run is refused.
    """
    parts = {"state": progress.state, **progress.moments}
    if progress.kept is not progress.state:
        parts["kept"] = progress.kept
    arrays = {
        f"{part}/{name}": value for part, state in parts.items() for name, value in state.items()
    }
    rounds = [asdict(done) for done in progress.rounds]
    write_atomically(path, encode(arrays, {"kind": _KIND, "run": dict(run), "rounds": rounds}))


def load_checkpoint(path: Path, run: Mapping[str, Any]) -> Progress:
    """Read what `save_checkpoint` wrote.

    Raises
    ------
    TrainingError
        If the file is not whole, or of another run; what differs is named.
    """
    try:
        arrays, metadata = decode(path.read_bytes())
    except CorruptBytesError as error:
        raise TrainingError(f"{path}: {error}; delete it to start again") from None
    if metadata.get("kind") != _KIND:
        raise TrainingError(
            f"{path} is {metadata.get('kind')!r}, not {_KIND!r} as this fedcof writes it "
            "(0.1.0 wrote 'training-1'); delete it to start again"
        )
    differing = {
        name: metadata["run"].get(name)
        for name in sorted(metadata["run"].keys() | run.keys())
        if metadata["run"].get(name) != run.get(name)
    }
    if "start" in differing:
        differing["start"] = "another model"
    if differing:
        raise TrainingError(
            f"{path} is of a run with {differing}; give the same settings or another folder, or "
            "delete it to start again"
        )
    parts: dict[str, dict[str, NDArray[np.float32]]] = {}
    for key, value in arrays.items():
        part, _, name = key.partition("/")
        parts.setdefault(part, {})[name] = value
    state = parts.pop("state")
    kept = parts.pop("kept", state)
    rounds = tuple(
        Round(**{**saved, "refused": tuple(saved["refused"])}) for saved in metadata["rounds"]
    )
    return Progress(state, parts, rounds, kept)
