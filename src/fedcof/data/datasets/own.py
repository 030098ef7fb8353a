"""Data sets of the user's own, which no registry knows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedcof.data.folders import one_part
from fedcof.data.images import ImageSet
from fedcof.data.left_out import LeftOut
from fedcof.data.reading.folders import find_tables, split_source
from fedcof.data.reading.own_data import OwnData, check_label_types, warn_of_twins_among
from fedcof.data.reading.reading import USUAL_NAMES, Reading, read_images, read_tables
from fedcof.data.split import Split, TableSplit, hold_out, hold_out_features
from fedcof.data.tables import FeatureTable
from fedcof.errors import OwnDataWarning


def read_own(source: str, reading: Reading = USUAL_NAMES) -> Split | TableSplit:
    """Return a train and a test set of own data, of the same classes.

    Parameters
    ----------
    source : str
        As `fedcof.data.read` takes a path. A folder with tables ``train*`` and ``test*`` (or
        ``val*``), or with sub-folders of images of these names, says what is for the test; else a
        fifth of every class is held out.
    reading : Reading

    Raises
    ------
    OwnDataError, FileNotFoundError
        As `fedcof.data.read`, or if the two do not go together.
    """
    kind, path = split_source(source)
    tables = find_tables(kind, path)
    if tables is None:
        return read_folder(path, reading)
    train = read_tables(tables.train, reading)
    for line in (tables.left_out + train.left_out).lines():
        warnings.warn(OwnDataWarning(f"{path}: {line}"), stacklevel=2)
    if not tables.test:
        [whole] = as_sets([train])
        return hold_out(whole) if isinstance(whole, ImageSet) else hold_out_features(whole)
    return as_split(train, read_tables(tables.test, reading))


def read_folder(path: Path, reading: Reading = USUAL_NAMES) -> Split:
    """Return the images of a folder with one sub-folder a class.

    Where it has sub-folders ``train`` and ``test`` (or ``val``), these have one a class; else a
    fifth of every class is held out.
    """
    parts = read_images(path, reading)
    for line in sum((images.left_out for images in parts.values()), LeftOut()).lines():
        warnings.warn(OwnDataWarning(line), stacklevel=3)
    if "train" in parts and "test" in parts:
        return parts["train"], parts["test"]
    return hold_out(one_part(parts, "train"))


def read_tables_of_images(train: Sequence[Path], test: Sequence[Path] = ()) -> Split:
    """Return the images of tables, those to train on and those to test on.

    Without tables for the test, a fifth of every class is held out.
    """
    own = read_tables(train)
    if not test:
        [whole] = as_sets([own])
        assert isinstance(whole, ImageSet)
        return hold_out(whole)
    split = as_split(own, read_tables(test))
    assert isinstance(split[0], ImageSet)
    return split


def as_split(train: OwnData, test: OwnData) -> Split | TableSplit:
    """Return samples to train and to test on as sets of the same features and classes."""
    warn_of_twins_among([train, test])
    first, second = as_sets([train, test.aligned_with(train)])
    return first, second  # type: ignore[return-value]  # aligned: both are of one type


def as_sets(parts: Sequence[OwnData]) -> list[ImageSet | FeatureTable]:
    """Return labelled samples as sets whose labels are indices into the same classes.

    The classes are in the source's own order, or in ascending order.
    """
    check_label_types(parts)
    values = np.concatenate([part.labels for part in parts])
    found, labels = np.unique(values, return_inverse=True)
    classes = tuple(map(str, found))
    named = parts[0].classes
    if set(classes) <= set(named):
        position = {name: index for index, name in enumerate(named)}
        labels = np.array([position[name] for name in classes])[labels]
        classes = named
    stops = np.cumsum([len(part) for part in parts])[:-1]
    return [
        FeatureTable(part.data, of, classes, part.columns)
        if part.are_features
        else ImageSet(part.data, of, classes, part.columns, part.left_out)
        for part, of in zip(parts, np.split(labels, stops), strict=True)
    ]
