"""What a path holds: a table, tables that are parts of one, arrays, or folders of images."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedcof.data.left_out import LeftOut
from fedcof.data.reading import arrays, arrow, csv_files
from fedcof.data.reading.table import Table
from fedcof.errors import OwnDataError

SUFFIXES = (*csv_files.SUFFIXES, *arrow.SUFFIXES, *arrays.SUFFIXES)
"""How the names of the files end that are read as tables."""

KINDS = ("folder", "parquet", "table")
"""Words before the colon of a source."""


@dataclass(frozen=True)
class Tables:
    """The tables of a path, which are parts of one.

    Parameters
    ----------
    train, test : tuple of Path
        Those to train on; those to test on, where the path has some.
    left_out : LeftOut
        Files that are no tables.
    """

    train: tuple[Path, ...]
    test: tuple[Path, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)


def split_source(source: str | os.PathLike[str]) -> tuple[str, Path]:
    """Return the word before the colon, if it is one of `KINDS`, and the path.

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder.
    """
    kind, colon, rest = str(source).partition(":")
    if not colon or kind not in KINDS:
        kind, rest = "", str(source)
    path = Path(rest).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}")
    return kind, path


def find_tables(kind: str, path: Path) -> Tables | None:
    """Return the tables of a path; None where it is a folder of images.

    Raises
    ------
    OwnDataError
        If it holds none, or files of several kinds.
    """
    if kind == "folder":
        return None
    if not path.is_dir():
        if _suffix(path) is None:
            raise OwnDataError(
                f"{path} is of no kind that is read; a table ends in {', '.join(SUFFIXES)}, and "
                "images lie in a folder, a sub-folder a class"
            )
        return Tables((path,))
    if _is_array_folder(path):
        others = [str(f) for f in _files(path) if not arrays.is_array_file(f)]
        return Tables((path,), left_out=_no_tables(others))
    files = [file for file in _files(path) if _suffix(file)]
    others = [str(file) for file in _files(path) if not _suffix(file)]
    if not files and not kind:
        return None
    if not files:
        raise OwnDataError(f"{path} holds no tables; one ends in {', '.join(SUFFIXES)}")
    folders = [folder for folder in path.iterdir() if folder.is_dir() and _shown(folder)]
    if not kind and any(not _holds_table(folder) for folder in folders):
        raise OwnDataError(
            f"{path} holds tables, such as {files[0].name}, and folders without any; say which is "
            f"meant: folder:{path} for images, table:{path} for tables"
        )
    if hive := [file for file in files if "=" in str(file.parent.relative_to(path))]:
        raise OwnDataError(
            f"{hive[0].parent} is a folder that holds a column's value in its name; write that "
            "column into the files, as they are read one by one"
        )
    suffixes = Counter(map(_suffix, files))
    if len(suffixes) > 1:
        raise OwnDataError(
            f"{path} holds tables of several kinds: "
            + ", ".join(f"{times} {suffix}" for suffix, times in suffixes.items())
            + "; the same rows may be in both: give the files of one kind a folder of their own"
        )
    train = [file for file in files if file.name.lower().startswith("train")]
    test = [file for file in files if file.name.lower().startswith(("test", "val"))]
    if train and test:
        others += [str(file) for file in files if file not in (*train, *test)]
        return Tables(tuple(train), tuple(test), _no_tables(others))
    return Tables(tuple(files), left_out=_no_tables(others))


def open_table(path: Path, label: str = "", client: str = "") -> Table:
    """Open one table.

    Raises
    ------
    FileNotFoundError
        If it is not there.
    OwnDataError
        If it is damaged.
    """
    if not path.exists():
        raise FileNotFoundError(f"no file {path}")
    if path.is_dir() or _suffix(path) in arrays.SUFFIXES:
        return arrays.open_arrays(path)
    if csv_files.is_csv(path):
        return csv_files.CsvTable(path, label, client)
    return arrow.open_arrow(path)


def _files(folder: Path) -> Sequence[Path]:
    """Return all files below a folder but hidden ones, and Spark's marks such as _SUCCESS."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and all(_shown(Path(part)) for part in path.relative_to(folder).parts)
    )


def _shown(path: Path) -> bool:
    return not path.name.startswith((".", "_"))


def _holds_table(folder: Path) -> bool:
    return any(_suffix(file) for file in _files(folder))


def _suffix(path: Path) -> str | None:
    name = path.name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def _is_array_folder(path: Path) -> bool:
    return any(arrays.is_array_file(file) for file in path.iterdir())


def _no_tables(files: Sequence[str]) -> LeftOut:
    return LeftOut({"not a table": tuple(files)} if files else {})
