"""Features that were extracted elsewhere: npz, safetensors, Parquet, Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.data.arrow import LABELS, SUFFIXES, check_labels, read_columns
from fedcof.data.split import stratified_rows, train_and_test

_READ = (".npz", ".safetensors", *SUFFIXES)


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Labelled features.

    Parameters
    ----------
    features : (n, dim) float array
    labels : (n,) int array
        Index into ``classes``.
    classes : tuple of str
        Names of the classes.
    columns : mapping of str to (n,) array
        What else is known of every sample, such as its "user" or "domain".
    """

    features: NDArray[np.floating[Any]]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, rows: NDArray[np.int64]) -> FeatureTable:
        """Return the samples of these rows, in this order."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return FeatureTable(self.features[rows], self.labels[rows], self.classes, columns)


def load_table(path: Path) -> tuple[FeatureTable, FeatureTable]:
    """Return features to train on and to test on.

    Parameters
    ----------
    path : Path
        A file, of whose classes a fifth is held out for the test; or a folder with files ``train*``
        and ``test*``. A file is ``.npz`` or ``.safetensors`` with an array ``features`` (n, dim),
        or ``.parquet``, ``.arrow`` or ``.feather`` with a column ``features`` of lists, or, where
        there is none, with its columns of floating-point numbers as the features. Its labels are
        called ``label``, ``labels``, ``class`` or ``target``, and are integers or texts. All other
        arrays or columns with an entry a sample are in ``columns``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it holds no features or labels, or features that are not finite; file and row are named.
    """
    files = train_and_test(path, _READ)
    if files is None:
        table = _tables([[path]])[0]
        train, test = stratified_rows(table.labels)
        return table.subset(train), table.subset(test)
    first, second = _tables(files)
    return first, second


def _tables(parts: Sequence[Sequence[Path]]) -> list[FeatureTable]:
    """Read tables, each from its files, and give them the same classes."""
    read = [_concatenate([_read(path) for path in part]) for part in parts]
    names, labels = np.unique(
        np.concatenate([columns["label"] for columns in read]), return_inverse=True
    )
    stops = np.cumsum([len(columns.pop("label")) for columns in read])
    return [
        FeatureTable(columns.pop("features"), part, tuple(map(str, names)), columns)
        for columns, part in zip(read, np.split(labels, stops[:-1]), strict=True)
    ]


def _concatenate(read: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    shared = [name for name in read[0] if all(name in columns for columns in read)]
    return {name: np.concatenate([columns[name] for columns in read]) for name in shared}


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """Return a file's features, its labels as "label", and its other columns."""
    if not path.is_file():
        raise FileNotFoundError(f"no table of features at {path}")
    arrays = _read_arrays(path)
    label = next((name for name in LABELS if name in arrays), None)
    if label is None or "features" not in arrays:
        raise ValueError(
            f"{path} has no {'labels' if label is None else 'features'}; it has {sorted(arrays)}"
        )
    features = arrays.pop("features")
    labels = arrays.pop(label)
    check_labels(labels, str(path))
    if features.ndim != 2 or features.dtype.kind != "f" or len(features) != len(labels):
        raise ValueError(
            f"{path}: features are {features.dtype} of shape {features.shape}, expected floats of "
            f"shape ({len(labels)}, dim), as there are {len(labels)} labels"
        )
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        raise ValueError(f"{path}: row {int(finite.argmin())} of the features is not finite")
    columns = {name: array for name, array in arrays.items() if array.shape == labels.shape}
    return {"features": features, "label": labels, **columns}


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    if path.suffix in SUFFIXES:
        return _gather(read_columns(path))
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return dict(file)
        if path.suffix == ".safetensors":
            from safetensors.numpy import load_file

            return dict(load_file(path))
    except Exception as error:  # the readers raise whatever they meet in a damaged file
        raise ValueError(f"{path} cannot be read: {error}") from error
    raise ValueError(f"{path} is no table of features; one ends in {', '.join(_READ)}")


def _gather(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Put the columns of a table's features together."""
    if "features" in columns:
        columns["features"] = np.stack(columns["features"].tolist())
        return columns
    floats = [name for name, column in columns.items() if column.dtype.kind == "f"]
    if floats:
        features = np.stack([columns.pop(name) for name in floats], axis=1)
        columns["features"] = features
    return columns
