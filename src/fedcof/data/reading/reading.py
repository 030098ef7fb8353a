"""Reading own data: from a path or a table in memory to samples.

=============================  =====================================================================
``.csv``, ``.tsv``, ``.gz``    columns; the line of names comes first
``.parquet``, ``.arrow``,      columns; features as one column of vectors, or as columns of numbers;
``.feather``                   or a column of images: bytes, paths, or structs of both
``.npz``, ``.safetensors``,    arrays by name, each with an entry a row
folder of ``.npy``
folder of any one of these     the parts of one table; with files train* and test*, those of train*
other folder                   images, a sub-folder a class, whose name is the label
frame, data set, dict          pandas, Hugging Face, Arrow, arrays
=============================  =====================================================================

The rule: a row counts, or it is named in an error, or counted with the reason in what was left out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedcof.data.file_tree import is_picture
from fedcof.data.folders import First, image_parts, list_pictures, one_part
from fedcof.data.images import ImageSet, WindowedImages, image_name
from fedcof.data.left_out import LeftOut
from fedcof.data.pixels import Window
from fedcof.data.reading.folders import (
    find_tables,
    open_table,
    split_source,
    warn_of_folders,
)
from fedcof.data.reading.frames import table_of
from fedcof.data.reading.own_data import OwnData, Places, joined
from fedcof.data.reading.table import Table
from fedcof.data.reading.values import samples_of
from fedcof.errors import NoRowsError, OwnDataError
from fedcof.settings import check_settings, setting


@dataclass(frozen=True)
class Reading:
    """What the parts of own data are called, and how its pixels are read."""

    features: str = setting(
        "", "Column of the features, or several with commas or * between. Default: found by name."
    )
    label: str = setting("", "Column of the label. Default: found by its usual names.")
    client: str = setting(
        "", "Column that says whose each row is. Default: client, clients, client_id or client_ids."
    )
    window: str = setting(
        "",
        "LOW:HIGH, the pixel values that become black and white. Default: 8 bits as they are, more "
        "by each picture's own range; floats need it.",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        Window.parse(self.window)


USUAL_NAMES = Reading()
"""Everything is found by its usual name."""


def read(
    source: Any,
    reading: Reading = USUAL_NAMES,
    *,
    part: Literal["train", "test"] = "train",
    labelled: bool = True,
    finite: bool = True,
) -> OwnData:
    """Return the samples of a source.

    Parameters
    ----------
    source : path, str, or table in memory
        A path, perhaps behind ``folder:``, ``parquet:`` or ``table:``; or a data frame of pandas,
        a data set of Hugging Face, a table of Arrow, a dict of arrays.
    reading : Reading
    part : {"train", "test"}, default "train"
        What is read where a folder has a part to train on and one to test on. The rows of the other
        are passed over in ``left_out``.
    labelled : bool, default True
        Whether a table without labels is refused. If not, a folder of images may have any form, and
        one image is a source too; where neither a label nor a client is named, all that lies in a
        folder is read, and has no labels.
    finite : bool, default True
        Whether features that are not finite are refused here. Else they are where a client's
        samples are summarized, so that one client's do not stop the others.

    Raises
    ------
    OwnDataError
        If something in it cannot be read or is not well-formed: file, column and row are named.
    FileNotFoundError
        If there is no such file or folder.
    ModuleNotFoundError
        If pyarrow is needed and not installed.

    Warns
    -----
    OwnDataWarning
        If columns are not used, or two classes or clients may be one.
    """
    if not isinstance(source, str | os.PathLike):
        return _samples(table_of(source), reading, labelled, finite)
    kind, path = split_source(source)
    if not labelled and path.is_file() and is_picture(path):
        return _pictures(path, reading)
    tables = find_tables(kind, path)
    if tables is None and not (labelled or reading.label or reading.client):
        return _pictures(path, reading)
    if tables is None:
        return _own_images(one_part(read_images(path, reading), part))
    left_out, files, others = tables.left_out, tables.train, tables.test
    if part == "test" and tables.test:
        files, others = others, files
    if others:
        reason = f"a table not of the part to {part} on"
        left_out += LeftOut(passed_over={reason: tuple(map(str, others))})
    own = read_tables(files, reading, labelled=labelled, finite=finite)
    return replace(own, left_out=own.left_out + left_out)


def read_tables(
    paths: Sequence[Path],
    reading: Reading = USUAL_NAMES,
    *,
    labelled: bool = True,
    finite: bool = True,
) -> OwnData:
    """Return the samples of tables that are parts of one."""
    found: list[OwnData] = []
    without: list[str] = []
    for path in paths:
        try:
            table = open_table(path, reading.label, reading.client)
            found.append(_samples(table, reading, labelled, finite))
        except NoRowsError:
            if len(paths) == len(without) + 1:
                raise
            without.append(str(path))
    own = joined(found)
    if own.clients is None:
        warn_of_folders(paths)
    if not without:
        return own
    return replace(own, left_out=own.left_out + LeftOut({"a table without rows": tuple(without)}))


def read_images(path: Path, reading: Reading = USUAL_NAMES) -> dict[str, ImageSet]:
    """Return the images of a folder by the part, as `fedcof.data.folders.image_parts` does.

    The folders are the classes; or where the client is "folder", those of the first level are the
    clients. With the label "folder" those of the first level are the classes for sure.

    Raises
    ------
    OwnDataError
        If a column is named.
    """
    named = {reading.features, reading.label, reading.client} - {"", "folder"}
    if named:
        raise OwnDataError(
            f"{path} is read as a folder of images, which has no columns: "
            f"{', '.join(sorted(named))} cannot be among them"
        )
    first: First = "client" if reading.client else "class" if reading.label else ""
    return {
        part: replace(images, images=_windowed(images.images, reading))
        for part, images in image_parts(path, first=first).items()
    }


def _pictures(path: Path, reading: Reading) -> OwnData:
    """Return all pictures of a path, without labels."""
    paths, left_out = list_pictures(path)
    places = Places.of_files(list(map(str, paths)))
    return OwnData(_windowed(paths, reading), None, None, places, left_out=left_out)


def _windowed(images: Any, reading: Reading) -> Any:
    window = Window.parse(reading.window)
    return images if window is None else WindowedImages(images, window)


def _own_images(images: ImageSet) -> OwnData:
    return OwnData(
        images.images,
        np.array(images.classes)[images.labels],
        images.columns.get("client"),
        Places.of_files([image_name(image, row) for row, image in enumerate(images.images)]),
        images.columns,
        images.left_out,
        classes=images.classes,
    )


def _samples(table: Table, reading: Reading, labelled: bool, finite: bool) -> OwnData:
    own = samples_of(
        table,
        features=reading.features,
        label=reading.label,
        client=reading.client,
        labelled=labelled,
        finite=finite,
    )
    if not own.are_features:
        return replace(own, data=_windowed(own.data, reading))
    if reading.window:
        raise OwnDataError(f"{table.name} has features, no pixels: take out --window")
    return own
