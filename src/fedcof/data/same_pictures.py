"""Files of pictures that have the same content."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path

from fedcof.data.images import content_hash
from fedcof.errors import SamePictureWarning

_BEGINNING = 1 << 16
"""Bytes by which most files of one size are told apart."""
_NAMED = 3


def warn_of_same_pictures(pictures: Sequence[tuple[Path, str, str]]) -> None:
    """Warn of pictures that are there twice.

    Parameters
    ----------
    pictures : sequence of (file, part, class)

    Warns
    -----
    SamePictureWarning
        For each kind: in two classes, in two parts, twice in a class; how many, and the first.
    """
    found: dict[str, list[str]] = {}
    for group in same_files([path for path, _, _ in pictures]):
        paths, parts, classes = zip(*(pictures[row] for row in group), strict=True)
        if len(set(classes)) > 1:
            where = "in two classes, which contradict each other"
        else:
            where = "in both parts" if len(set(parts)) > 1 else "twice in a class"
        found.setdefault(where, []).append(" and ".join(map(str, paths[:2])))
    for where, pairs in found.items():
        named = "; ".join(pairs[:_NAMED]) + (" ..." if len(pairs) > _NAMED else "")
        warnings.warn(
            f"same pictures {where} ({len(pairs):,}): {named}; all are kept",
            SamePictureWarning,
            stacklevel=4,
        )


def same_files(paths: Sequence[Path]) -> list[list[int]]:
    """Return the rows of files with the same content, a list for each content.

    Only files of one size are opened, and only those that begin alike are read to their end.
    """
    groups = [list(range(len(paths)))]
    for key in (_size, _beginning, content_hash):
        refined: dict[object, list[int]] = {}
        for number, group in enumerate(groups):
            for row in group:
                refined.setdefault((number, key(paths[row])), []).append(row)
        groups = [group for group in refined.values() if len(group) > 1]
    return groups


def _size(path: Path) -> object:
    try:
        return path.stat().st_size or path  # empty files are no pictures
    except OSError:
        return path


def _beginning(path: Path) -> object:
    try:
        with path.open("rb") as file:
            return hashlib.sha256(file.read(_BEGINNING)).digest()
    except OSError:
        return path
