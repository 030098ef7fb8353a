"""How a data set lies in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedcof.data.split import Split


@dataclass(frozen=True)
class Layout:
    """A form in which a data set is distributed.

    Parameters
    ----------
    folders : tuple of str
        What the unpacked folder is called. It lies in the data folder, or is itself that folder.
    marker : str
        A file or folder in it that tells this layout from others.
    read : callable
        From the unpacked folder to the train and the test set. It raises `FileNotFoundError` with
        the name of a file that is missing.
    """

    folders: tuple[str, ...]
    marker: str
    read: Callable[[Path], Split]

    def find(self, data: Path) -> Path | None:
        """Return the unpacked folder; None if it is not there."""
        candidates = [*(data / folder for folder in self.folders), data]
        return next((path for path in candidates if (path / self.marker).exists()), None)

    def wanted(self, data: Path) -> Path:
        """Return a file that tells that the set is there."""
        return data / self.folders[0] / self.marker


def listed(folder: Path, names: Sequence[str], list_name: str) -> list[Path]:
    """Return the files that a list names, all of which have to be there.

    Parameters
    ----------
    folder : Path
    names : sequence of str
        Relative to ``folder``, with forward slashes.
    list_name : str
        The list's name in the error.

    Raises
    ------
    FileNotFoundError
        If some are missing: the first, and how many.
    """
    paths = [folder / name for name in names]
    entries = {parent: _entries(parent) for parent in {path.parent for path in paths}}
    missing = [path for path in paths if path.name not in entries[path.parent]]
    if missing:
        raise FileNotFoundError(
            f"{missing[0]} is missing"
            + (f", and {len(missing) - 1:,} more" if len(missing) > 1 else "")
            + f" of the {len(names):,} images in {list_name}"
        )
    return paths


def _entries(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return set()


def lines(path: Path) -> Iterable[list[str]]:
    """Yield the words of each line of a text file; empty lines are passed over."""
    with path.open(encoding="utf-8") as file:
        yield from (words for words in map(str.split, file) if words)
