"""Folders of pictures: one sub-folder a class, perhaps by site, perhaps in parts to train and test.

Every file below a folder is a picture in the set, or stands in the set's `LeftOut` with the reason.
"""

from __future__ import annotations

import os
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from fedcof.data.file_tree import Tree, is_hidden, walk
from fedcof.data.images import ImageSet
from fedcof.data.left_out import LeftOut
from fedcof.data.same_pictures import warn_of_same_pictures
from fedcof.errors import FolderError, OwnDataWarning
from fedcof.labels import near_twins

NO_CLASS = "a picture that lies in no class's folder"
EMPTY = "a folder without a picture"
OTHER_PART = "of the part {}"

First: TypeAlias = Literal["", "class", "client"]
"""What the first level of folders is; "" where that is plain from the folder."""

PARTS = {
    "train": ("train", "training"),
    "test": ("test", "testing", "val", "valid", "validation"),
}


def image_folder(root: str | os.PathLike[str], *, first: First = "") -> ImageSet:
    """Return the images of a folder with one sub-folder a class, or one a site and in it a class.

    The classes are the names of the folders (in Unicode's form NFC) in alphabetical order; images
    may lie deeper below them. A file counts by its suffix, or where that says nothing by its first
    bytes. Links are followed.

    Parameters
    ----------
    root : path
    first : {"", "class", "client"}
        What the folders of the first level are. With "client" those of the second are the classes,
        and the column "client" has the names of the first.

    Returns
    -------
    ImageSet
        Its ``left_out`` has all that lies below the folder and is not among the images.

    Raises
    ------
    FileNotFoundError
        If the folder is missing or has no images in sub-folders.
    FolderError
        If `first` is "" and the folders may be classes as well as sites.
    ModuleNotFoundError
        If there are DICOM files and pydicom is not installed.
    """
    root = Path(root)
    tree = walk(root)
    if not first:
        _check_unambiguous(tree)
    level = 2 if first == "client" else 1  # of the classes
    inside = [path for path in tree.pictures if len(tree.names(path)) > level]
    tree.left[NO_CLASS] += [path for path in tree.pictures if len(tree.names(path)) <= level]
    full = {tree.names(path)[:depth] for path in inside for depth in range(1, level + 1)}
    tree.left[EMPTY] += [
        folder
        for folder in tree.folders
        if len(tree.names(folder)) <= level and tree.names(folder) not in full
    ]
    if not inside:
        raise FileNotFoundError(
            "\n".join(
                [
                    f"{root} has no images in sub-folders; expected one for each class"
                    + (", in one for each site" if level == 2 else ""),
                    *tree.left_out().lines(),
                ]
            )
        )
    names = np.array([[_normal(name) for name in tree.names(path)[:level]] for path in inside])
    classes, labels = np.unique(names[:, -1], return_inverse=True)
    rows = np.argsort(labels, kind="stable") if level == 1 else np.arange(len(labels))
    return ImageSet(
        images=[inside[row] for row in rows],
        labels=labels[rows].astype(np.int64),
        classes=tuple(map(str, classes)),
        columns={"client": names[rows, 0]} if level == 2 else {},
        left_out=tree.left_out(),
    )


def image_folders(roots: Sequence[Path]) -> list[ImageSet]:
    """Return the images of several folders with the same classes.

    Raises
    ------
    FileNotFoundError
        As `image_folder`.
    ValueError
        If a folder has other classes than the first.
    """
    sets = [image_folder(root, first="class") for root in roots]
    for root, images in zip(roots, sets, strict=True):
        if images.classes != sets[0].classes:
            other = set(images.classes) ^ set(sets[0].classes)
            raise ValueError(
                f"{root} has other classes than {roots[0]}: {', '.join(sorted(other))} are only in "
                "one of them"
            )
    return sets


def image_parts(root: str | os.PathLike[str], *, first: First = "") -> dict[str, ImageSet]:
    """Return the images of a folder by the part: "train", "test", or "" where it has no parts.

    A folder has parts where its sub-folders are called ``train`` (or ``training``) and ``test`` (or
    ``testing``, ``val``, ``valid``, ``validation``), or one of these alone. Where there are several
    for the test, one counts, and the others are left out. Same pictures are warned of.

    Parameters
    ----------
    root, first
        As in `image_folder`.

    Returns
    -------
    dict of str to ImageSet
        Of the same classes.

    Raises
    ------
    FileNotFoundError, FolderError, ModuleNotFoundError
        As `image_folder`.
    FolderError
        If there are classes to test on that there are none of to train on.
    """
    root = Path(root)
    folders = _part_folders(root)
    if not folders:
        parts = {"": image_folder(root, first=first)}
    else:
        parts = {part: image_folder(folder, first=first) for part, folder in folders.items()}
        beside = _beside_parts(root, folders)
        parts = {
            part: replace(images, left_out=images.left_out + beside)
            for part, images in parts.items()
        }
    if "train" in parts and "test" in parts:
        parts["test"] = _with_classes(parts["test"], parts["train"].classes, root)
    _warn_of_twins(root, parts)
    warn_of_same_pictures(
        [
            (Path(path), part, images.classes[label])
            for part, images in parts.items()
            for path, label in zip(images.images, images.labels, strict=True)
        ]
    )
    return parts


def one_part(parts: Mapping[str, ImageSet], part: str) -> ImageSet:
    """Return a part of the images of `image_parts`; the whole where there is none of that name.

    All that lies in the other parts is passed over in its ``left_out``.
    """
    name = part if part in parts else next(iter(parts))
    chosen = parts[name]
    beside = set(chosen.left_out.everything())  # what lies beside all parts is in each
    others = {
        OTHER_PART.format(other): tuple(
            place
            for place in (*map(str, images.images), *images.left_out.everything())
            if place not in beside
        )
        for other, images in parts.items()
        if other != name
    }
    if not others:
        return chosen
    return replace(chosen, left_out=chosen.left_out + LeftOut(passed_over=others))


def list_pictures(path: str | os.PathLike[str]) -> tuple[list[Path], LeftOut]:
    """Return all pictures below a folder, or the one of a file, and what else lies there.

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder, or no picture in it.
    ModuleNotFoundError
        If there are DICOM files and pydicom is not installed.
    """
    path = Path(path)
    if path.is_file():
        return [path], LeftOut()
    tree = walk(path)
    if not tree.pictures:
        raise FileNotFoundError("\n".join([f"{path} has no pictures", *tree.left_out().lines()]))
    return tree.pictures, tree.left_out()


@cache
def _normal(name: str) -> str:
    """Return a file's name in NFC: two folders whose names look the same are one class."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return unicodedata.normalize("NFC", text)


def _check_unambiguous(tree: Tree) -> None:
    """Check that the folders of the first level are classes, not sites that hold classes.

    They may be sites where they hold no picture but several folders, or folders of the same names.
    """
    tops: dict[str, set[str]] = {}
    direct = set()
    for path in tree.pictures:
        top, *below = tree.names(path)
        if len(below) == 1:
            direct.add(top)
        elif below:
            tops.setdefault(top, set()).add(below[0])
    below = sorted(set().union(*tops.values()))
    shared = len(below) < sum(map(len, tops.values()))
    if len(below) < 2 or (direct and not shared):
        return
    if all(_part(name) for name in tops):
        raise FolderError(
            f"{tree.root} has parts ({_some(sorted(tops))}), not classes: name one of them, such "
            f"as {tree.root / max(tops)}"
        )
    tops_named, below_named = (_some(sorted(names)) for names in (tops, below))
    if all(_part(name) for name in below):
        raise FolderError(
            f"{tree.root} has the folders {tops_named}, and these have parts ({below_named}): "
            f"name one of them, such as {tree.root / min(tops)}"
        )
    alone = f"; or name {tree.root / min(tops)} itself" if len(tops) == 1 else ""
    raise FolderError(
        f"{tree.root} can be read in two ways: it has the folders {tops_named}, and these have the "
        f"folders {below_named}. If {tops_named} are sites and {below_named} classes, say "
        f"--client folder; if {tops_named} are the classes, --label folder{alone}"
    )


def _some(names: Sequence[str], limit: int = 3) -> str:
    return ", ".join(names[:limit]) + (" ..." if len(names) > limit else "")


def _warn_of_twins(root: Path, parts: Mapping[str, ImageSet]) -> None:
    """Warn of folders whose names may be meant as one."""
    names = {name for images in parts.values() for name in images.classes}
    for images in parts.values():
        names |= set(images.columns.get("client", np.empty(0, np.str_)).tolist())
    for twins in near_twins(names):
        warnings.warn(
            f"{root}: the folders {', '.join(map(repr, twins))} are taken as {len(twins)} "
            "different names; write them alike if they are one",
            OwnDataWarning,
            stacklevel=3,
        )


def _part(name: str) -> str:
    """Return the part that a folder of this name is, or an empty text."""
    return next((part for part, names in PARTS.items() if name.casefold() in names), "")


def _part_folders(root: Path) -> dict[str, Path]:
    """Return the folders of the parts of a set; none if its folders are no parts."""
    folders = _folders(root)
    found: dict[str, Path] = {}
    for path in folders:
        if part := _part(path.name):
            found.setdefault(part, path)
    whole = len(found) == len(PARTS) or all(_part(path.name) for path in folders)
    return {part: found[part] for part in PARTS if part in found} if whole else {}


def _folders(root: Path) -> list[Path]:
    """Return the folders in a folder that are not hidden, by their names."""
    if not root.is_dir():
        return []
    return [path for path in sorted(root.iterdir()) if path.is_dir() and not is_hidden(path)]


def _beside_parts(root: Path, folders: Mapping[str, Path]) -> LeftOut:
    """Return what lies beside the folders of the parts, further parts to test on among it."""
    chosen = frozenset(folders.values())
    further = [path for path in _folders(root) if _part(path.name) and path not in chosen]
    tree = walk(root, without=chosen.union(further))
    tree.left[NO_CLASS] += tree.pictures
    passed_over = {}
    for path in further:
        found = walk(path)
        places = (*map(str, found.pictures), *found.left_out().everything())
        passed_over[OTHER_PART.format(path.name)] = places
    return tree.left_out() + LeftOut(passed_over=passed_over)


def _with_classes(images: ImageSet, classes: tuple[str, ...], root: Path) -> ImageSet:
    """Return images labelled by the classes of another part."""
    unknown = sorted(set(images.classes) - set(classes))
    if unknown:
        raise FolderError(
            f"{root} has classes to test on that it has no image of to train on: {_some(unknown)}"
        )
    to_row = np.array([classes.index(name) for name in images.classes], np.int64)
    return replace(images, labels=to_row[images.labels], classes=classes)
