"""What lies below a folder: pictures, and all else with the reason why it is none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from PIL import Image

from fedcof.data import dicom
from fedcof.data.left_out import LeftOut

HIDDEN = "hidden, or put there by an operating system"
NO_PICTURE = "not a picture"
UNREAD = "a picture of a kind that is not read (save it as JPEG, PNG or TIFF)"
BROKEN = "a link that leads nowhere"
LOOP = "a link into the same folder"

_PICTURE, _DICOM = "picture", "DICOM"

_SYSTEM = frozenset(
    {"__macosx", "thumbs.db", "desktop.ini", "@eadir", "$recycle.bin", "lost+found"}
)
_NO_PIXELS = {"BUFR", "EPS", "GRIB", "HDF5", "IPTC", "MPEG", "WMF"}
"""Formats that Pillow opens, but does not decode by itself."""
_SNIFFED = {"AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "TIFF", "WEBP"}
"""Formats whose first bytes are like no other file's."""
_UNREAD = {
    *(".heic", ".heif", ".jxl", ".svg", ".eps", ".wmf", ".emf"),
    *(".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".pef", ".raf", ".rw2", ".srw"),  # of cameras
}


@dataclass
class Tree:
    """What lies below a folder.

    Attributes
    ----------
    pictures, folders : list of Path
        In the order of their names, folder by folder.
    left : dict of str to list of Path
        What is neither, by the reason.
    """

    root: Path
    pictures: list[Path] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    left: dict[str, list[Path]] = field(default_factory=lambda: defaultdict(list))

    def names(self, path: Path) -> tuple[str, ...]:
        """Return the names of the folders from below the root to a path, and its own."""
        return path.parts[len(self.root.parts) :]

    def left_out(self) -> LeftOut:
        """Return what is no picture."""
        found = {why: tuple(map(str, paths)) for why, paths in self.left.items() if paths}
        hidden = {HIDDEN: found.pop(HIDDEN)} if HIDDEN in found else {}
        return LeftOut(found, passed_over=hidden)


def is_picture(path: Path) -> bool:
    """Return whether a file is a picture, by its name or its first bytes."""
    return _kind(path) in (_PICTURE, _DICOM)


def walk(root: Path, without: Set[Path] = frozenset()) -> Tree:
    """Return what lies below a folder, but for some of its sub-folders.

    Links are followed, but not in circles.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ModuleNotFoundError
        If there are DICOM files and pydicom is not installed.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"no image folder at {root}")
    tree = Tree(root)
    dicoms: list[Path] = []
    for path in _files(tree, root, (root.resolve(),), without):
        kind = _kind(path)
        if kind in (_PICTURE, _DICOM):
            tree.pictures.append(path)
            dicoms += [path] if kind == _DICOM else []
        else:
            tree.left[kind].append(path)
    if dicoms:
        more = f" and {len(dicoms) - 1:,} more files" if len(dicoms) > 1 else ""
        dicom.require_pydicom(f"{dicoms[0]}{more}: DICOM is")
    return tree


def _files(tree: Tree, folder: Path, chain: tuple[Path, ...], without: Set[Path]) -> Iterator[Path]:
    """Yield the files below a folder, to which links may lead from the folders of `chain`."""
    for path in sorted(set(folder.iterdir()) - without):
        if is_hidden(path):
            tree.left[HIDDEN].append(path)
        elif path.is_symlink() and not path.exists():
            tree.left[BROKEN].append(path)
        elif not path.is_dir():
            yield path
        elif path.is_symlink() and _is_double((real := path.resolve()), chain):
            tree.left[LOOP].append(path)
        else:
            tree.folders.append(path)
            below = (*chain, real) if path.is_symlink() else chain
            yield from _files(tree, path, below, without)


def _is_double(real: Path, chain: tuple[Path, ...]) -> bool:
    """Return whether a folder is read anyway, or holds the one that it is linked from."""
    return any(real.is_relative_to(other) or other.is_relative_to(real) for other in chain)


def _kind(path: Path) -> str:
    """Return what a file is: a picture, DICOM, or the reason why it is left out."""
    suffix = path.suffix.lower()
    if not path.is_file():
        return NO_PICTURE
    by_suffix = [(_suffixes(), _PICTURE), (_UNREAD, UNREAD), (dicom.SUFFIXES, _DICOM)]
    for suffixes, kind in by_suffix:
        if suffix in suffixes:
            return kind
    try:
        with path.open("rb") as file:
            if dicom.is_dicom(file.read(132)):
                return NO_PICTURE if path.name == "DICOMDIR" else _DICOM
            file.seek(0)
            Image.open(file, formats=[kind for kind in _SNIFFED if kind in Image.OPEN]).close()
    except Exception:  # Pillow's readers raise whatever they meet
        return NO_PICTURE
    return _PICTURE


@cache
def _suffixes() -> frozenset[str]:
    registered = Image.registered_extensions()
    decoded = set(Image.OPEN) - _NO_PIXELS
    return frozenset(suffix for suffix, kind in registered.items() if kind in decoded)


def is_hidden(path: Path) -> bool:
    """Return whether a file or folder is hidden, or an operating system's own."""
    return path.name.startswith(".") or path.name.lower() in _SYSTEM
