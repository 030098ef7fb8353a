"""Data sets that Hugging Face ``datasets``, of the extra ``fedcof[data]``, loads by public id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcof.data.images import ImageSet, ImageSource, LazyImages
from fedcof.data.split import Split, hold_out
from fedcof.installation import install_line


@dataclass(frozen=True)
class Hub:
    """Where a data set lies on the hub, and what its columns are called.

    Parameters
    ----------
    id : str
    image, label : str
        Columns. The labels are numbers with names, or texts.
    columns : tuple of str
        Other columns to keep.
    train : str
    test : str or None
        Splits. Without a test split, a fifth of the other one is held out.
    """

    id: str
    image: str = "image"
    label: str = "label"
    columns: tuple[str, ...] = ()
    train: str = "train"
    test: str | None = "test"


def load_hub(hub: Hub) -> Split:
    """Load a data set; it stays on disk, in the cache of ``datasets``.

    Raises
    ------
    ModuleNotFoundError
        If ``datasets`` is not installed.
    """
    train = _load(hub, hub.train)
    return hold_out(train) if hub.test is None else (train, _load(hub, hub.test))


def _load(hub: Hub, split: str) -> ImageSet:
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "data sets of the hub are loaded by Hugging Face datasets, which is not installed; "
            f"run: {install_line('data')}"
        ) from error
    table: Any = datasets.load_dataset(hub.id, split=split)
    columns = {name: _names(table, name) for name in hub.columns}
    names = _names(table, hub.label)
    classes = tuple(getattr(table.features[hub.label], "names", None) or np.unique(names).tolist())
    index = {name: i for i, name in enumerate(classes)}
    images = table.select_columns([hub.image]).cast_column(hub.image, datasets.Image(decode=False))
    return ImageSet(
        HubImages(images, hub.image), np.array([index[name] for name in names]), classes, columns
    )


def _names(table: Any, column: str) -> Any:
    """Return a column, its numbers replaced by their names where they have any."""
    values = np.array(table[column][:])
    names = getattr(table.features[column], "names", None)
    return np.array(names)[values] if names else values


class HubImages(LazyImages):
    """The encoded images of a table of ``datasets``.

    Parameters
    ----------
    table : datasets.Dataset
        Its images are not decoded.
    column : str
    """

    def __init__(self, table: Any, column: str) -> None:
        self._table = table
        self._column = column

    def __len__(self) -> int:
        return len(self._table)

    def fetch(self, row: int) -> ImageSource:
        """Return the image of a row, encoded, or its path."""
        cell = self._table[row][self._column]
        return cell["bytes"] if cell["bytes"] is not None else Path(cell["path"])
