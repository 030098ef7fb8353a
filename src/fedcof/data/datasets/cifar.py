"""CIFAR-10 and CIFAR-100: 60,000 images of 32 x 32 pixels.

Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009. Both official forms are
read: the pickles for Python and the binary files.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.data.datasets.layout import Layout
from fedcof.data.images import ImageSet
from fedcof.data.split import Split
from fedcof.pickles import load_arrays

_PIXELS = 3 * 32 * 32


def _read_pickles(
    folder: Path, *, train: Sequence[str], test: str, meta: str, labels: str, names: str
) -> Split:
    classes = tuple(_unpickle(folder / meta)[names])

    def read(files: Sequence[str]) -> ImageSet:
        batches = [_unpickle(folder / file) for file in files]
        pixels = np.concatenate([np.asarray(batch["data"], np.uint8) for batch in batches])
        targets = np.concatenate([np.asarray(batch[labels], np.int64) for batch in batches])
        return ImageSet(_images(pixels), targets, classes)

    return read(train), read([test])


def _unpickle(path: Path) -> Any:
    try:
        return load_arrays(path.read_bytes())
    except pickle.UnpicklingError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_binary(
    folder: Path, *, train: Sequence[str], test: str, names: str, label_bytes: int
) -> Split:
    """Read records of label bytes, of which the last is the fine label, and pixels."""
    classes = tuple((folder / names).read_text().split())
    record = label_bytes + _PIXELS

    def read(files: Sequence[str]) -> ImageSet:
        for file in files:
            if (folder / file).stat().st_size % record:
                raise ValueError(f"{folder / file} is cut off: its records have {record} bytes")
        records = np.concatenate([np.fromfile(folder / file, np.uint8) for file in files])
        records = records.reshape(-1, record)
        targets = records[:, label_bytes - 1].astype(np.int64)
        return ImageSet(_images(records[:, label_bytes:]), targets, classes)

    return read(train), read([test])


def _images(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


CIFAR_10 = (
    Layout(
        ("cifar-10-batches-py",),
        "data_batch_1",
        partial(
            _read_pickles,
            train=[f"data_batch_{i}" for i in range(1, 6)],
            test="test_batch",
            meta="batches.meta",
            labels="labels",
            names="label_names",
        ),
    ),
    Layout(
        ("cifar-10-batches-bin",),
        "data_batch_1.bin",
        partial(
            _read_binary,
            train=[f"data_batch_{i}.bin" for i in range(1, 6)],
            test="test_batch.bin",
            names="batches.meta.txt",
            label_bytes=1,
        ),
    ),
)

CIFAR_100 = (
    Layout(
        ("cifar-100-python",),
        "train",
        partial(
            _read_pickles,
            train=["train"],
            test="test",
            meta="meta",
            labels="fine_labels",
            names="fine_label_names",
        ),
    ),
    Layout(
        ("cifar-100-binary",),
        "train.bin",
        partial(
            _read_binary,
            train=["train.bin"],
            test="test.bin",
            names="fine_label_names.txt",
            label_bytes=2,
        ),
    ),
)
