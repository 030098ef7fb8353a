"""What a path holds: a table, tables that are parts of one, arrays, or folders of images."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedcof.data.folders import PARTS
from fedcof.data.left_out import LeftOut
from fedcof.data.reading import arrays, arrow, csv_files
from fedcof.data.reading.table import Table
from fedcof.errors import OwnDataError, OwnDataWarning

SUFFIXES = (*csv_files.SUFFIXES, *arrow.SUFFIXES, *arrays.SUFFIXES)
"""How the names of the files end that are read as tables."""

KINDS = ("folder", "parquet", "table")
"""Words before the colon of a source."""


_HIDDEN = "hidden, or put there by a program"
_MARKED = "a name that begins with _"


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
    if not rest:
        raise FileNotFoundError("no path is given; name a file or a folder")
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
    found, left_out = _files(path)
    if _is_array_folder(path):
        beside = [file for file in found if file.parent != path or not arrays.is_array_file(file)]
        return Tables((path,), left_out=left_out + _left_out("not an array beside others", beside))
    files = [file for file in found if _suffix(file)]
    left_out += _left_out("not a table", [file for file in found if not _suffix(file)])
    if not files and not kind:
        return None
    if not files:
        raise OwnDataError(f"{path} holds no tables; one ends in {', '.join(SUFFIXES)}")
    folders = [folder for folder in path.iterdir() if folder.is_dir() and _shown(folder.name)]
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
    parts = {file: _part(file.relative_to(path)) for file in files}
    train, test = ([file for file in files if parts[file] == part] for part in ("train", "test"))
    if train and test:
        neither = [file for file in files if not parts[file]]
        left_out += _left_out("neither to train nor to test on, by its name", neither)
        return Tables(tuple(train), tuple(test), left_out)
    return Tables(tuple(files), left_out=left_out)


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


def warn_of_folders(files: Sequence[Path]) -> None:
    """Warn that tables without clients lie in several folders, which may be the clients.

    Warns
    -----
    OwnDataWarning
    """
    folders = sorted({file.parent.name for file in files})
    if len(folders) > 1:
        shown = ", ".join(map(repr, folders[:3])) + (" ..." if len(folders) > 3 else "")
        warnings.warn(
            OwnDataWarning(
                f"the tables lie in {len(folders)} folders ({shown}), whose names are not read: if "
                "they are the clients, write a column client into the files"
            ),
            stacklevel=2,
        )


def _files(folder: Path) -> tuple[list[Path], LeftOut]:
    """Return the files below a folder, each once, and those that are passed over.

    Links to files and folders are followed. Marks of Spark and of operating systems, which hold no
    rows, are no files here.
    """
    found: list[Path] = []
    left: dict[str, list[Path]] = defaultdict(list)
    hidden: list[Path] = []
    seen: set[Path] = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        if (real := Path(root).resolve()) in seen:
            folders.clear()
            left["a folder that is read under another name"].append(Path(root))
            continue
        seen.add(real)
        folders.sort()
        for path in (Path(root, name) for name in sorted(names)):
            if not all(map(_shown, path.relative_to(folder).parts)):
                if _suffix(path):
                    (left[_MARKED] if path.name.startswith("_") else hidden).append(path)
            elif not path.exists():
                left["a link that leads nowhere"].append(path)
            elif (real := path.resolve()) in seen:
                left["a file that is read under another name"].append(path)
            else:
                seen.add(real)
                found.append(path)
    passed_over = {_HIDDEN: tuple(map(str, hidden))} if hidden else {}
    left_out = {why: tuple(map(str, paths)) for why, paths in left.items()}
    return found, LeftOut(left_out, passed_over)


def _shown(name: str) -> bool:
    """Return whether a file or folder is not hidden, nor a mark of Spark's or an office's lock."""
    return not name.startswith((".", "_", "~$"))


def _part(path: Path) -> str:
    """Return "train" or "test" for a file that is of such a part by its name or its folder's."""
    for name in (path.name, *path.parts[:-1]):
        words = [re.sub("(set|data)$", "", word) for word in re.split(r"[^a-z]+", name.lower())]
        for part, said in PARTS.items():
            if any(word in said for word in words):
                return part
    return ""


def _holds_table(folder: Path) -> bool:
    return any(_suffix(file) for file in _files(folder)[0])


def _suffix(path: Path) -> str | None:
    name = path.name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def _is_array_folder(path: Path) -> bool:
    return any(arrays.is_array_file(file) for file in path.iterdir())


def _left_out(reason: str, files: Sequence[Path]) -> LeftOut:
    return LeftOut({reason: tuple(map(str, files))} if files else {})
