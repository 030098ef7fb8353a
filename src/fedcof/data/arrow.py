"""Images in Parquet and Arrow files, as Hugging Face ``datasets`` writes them, or in any other.

pyarrow comes with ``fedcof[data]``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcof.data.images import ImageSet, ImageSource, LazyImages
from fedcof.data.split import Split, hold_out, train_and_test
from fedcof.installation import install_line

SUFFIXES = (".parquet", ".arrow", ".feather")
LABELS = ("label", "labels", "fine_label", "class", "target", "wnid")
CLASS_NAMES = ("class", "class_name", "label_name")
KEPT_BYTES = 256 << 20
"""How much of the Parquet files stays in memory: the pieces that were read last."""


def pyarrow() -> Any:
    """Import pyarrow, or say how to get it."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Parquet and Arrow files are read by pyarrow, which is not installed; "
            f"run: {install_line('data')}"
        ) from error
    return pyarrow


class Piece(NamedTuple):
    """Some rows of a file: how many, their size in memory, and how to read a column of them."""

    rows: int
    size: int
    read: Callable[[str], Any]


class ImageColumn(LazyImages):
    """The images in a column of Parquet or Arrow files.

    Of Parquet files, a row group at a time is read, and the last ones are kept; Arrow files are
    mapped into memory. The images stay encoded.

    Parameters
    ----------
    pieces : sequence of Piece
    column : str
        It holds encoded images; or paths, from ``folder``; or structs of both, "bytes" and "path".
    folder : Path
    """

    def __init__(self, pieces: Sequence[Piece], column: str, folder: Path) -> None:
        self._pieces = pieces
        self._starts = np.cumsum([0, *(piece.rows for piece in pieces)])
        self._column = column
        self._folder = folder
        largest = max((piece.size for piece in pieces), default=0)
        self._read = lru_cache(max(2, KEPT_BYTES // max(largest, 1)))(self._read_piece)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def fetch(self, row: int) -> ImageSource:
        """Return the image of a row, encoded, or its path."""
        piece = int(np.searchsorted(self._starts, row, side="right")) - 1
        cell = self._read(piece)[row - int(self._starts[piece])].as_py()
        if isinstance(cell, dict):
            cell = cell.get("path") if cell.get("bytes") is None else cell["bytes"]
        # A cell without an image is an image that cannot be read.
        return self._folder / cell if isinstance(cell, str) else cell or b""

    def _read_piece(self, piece: int) -> Any:
        return self._pieces[piece].read(self._column)


def read_images(
    paths: Sequence[Path], *, image: str | None = None, label: str | None = None
) -> ImageSet:
    """Return the images of Parquet or Arrow files of one schema, one file after the other.

    Parameters
    ----------
    paths : sequence of Path
    image : str, optional
        The column of the images. Default: "image" or "img", else the first that holds bytes.
    label : str, optional
        The column of the labels, integers or texts. Default: the first that there is of `LABELS`.

    Returns
    -------
    ImageSet
        The classes are named by the metadata that Hugging Face writes, else by a column of names
        beside the labels, else by the labels. Every other column of texts or integers is in
        ``columns``.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If one is damaged or of another schema, or if there is no such column; the columns are
        listed.
    """
    files = [_pieces(path) for path in paths]
    schema = files[0][0]
    for path, (other, _) in zip(paths, files, strict=True):
        if not schema.equals(other):
            raise ValueError(f"{path} has other columns than {paths[0]}: {other} and {schema}")
    image = image or _image_column(schema, paths[0])
    label = label or next((name for name in LABELS if name in schema.names), "")
    for column in (image, label):
        if column not in schema.names:
            raise ValueError(
                f"{paths[0]} has no column {column or 'of labels'!r}; it has {schema.names}"
            )
    pieces = [piece for _, of_file in files for piece in of_file]
    plain = [name for name in schema.names if name == label or _is_plain(schema.field(name).type)]
    columns = {name: _column(pieces, name) for name in plain if name != image}
    values = columns.pop(label)
    check_labels(values, f"column {label!r} of {paths[0]}")
    labels, classes = _classes(values, columns, _names(schema, label))
    return ImageSet(ImageColumn(pieces, image, paths[0].parent), labels, classes, columns)


def read_split(train: Sequence[Path], test: Sequence[Path]) -> Split:
    """Return the images of files for training and of files for testing, of the same classes."""
    images = read_images([*train, *test])
    num_train = sum(piece.rows for path in train for piece in _pieces(path)[1])
    rows = np.arange(len(images))
    return images.subset(rows[:num_train]), images.subset(rows[num_train:])


def read_path(path: Path) -> Split:
    """Return the images of one file, a fifth of them held out, or of a folder of files.

    In a folder, the files ``train*`` are for training, ``test*`` or ``val*`` for testing.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or if the folder lacks one of the two.
    """
    files = train_and_test(path, SUFFIXES)
    return hold_out(read_images([path])) if files is None else read_split(*files)


def read_columns(path: Path) -> dict[str, NDArray[Any]]:
    """Return all columns of a file as arrays; lists are objects, texts are str."""
    schema, pieces = _pieces(path)
    return {name: _column(pieces, name) for name in schema.names}


def check_labels(labels: NDArray[Any], where: str) -> None:
    """Check that labels are integers or texts.

    Raises
    ------
    ValueError
        If they are not, or some are missing.
    """
    if labels.dtype.kind not in "iuU":
        raise ValueError(
            f"{where} has labels of dtype {labels.dtype}; expected an integer or a text in each row"
        )


def _pieces(path: Path) -> tuple[Any, list[Piece]]:
    """Return a file's schema and its pieces."""
    pa = pyarrow()
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    try:
        if path.suffix == ".parquet":
            with pa.parquet.ParquetFile(path) as file:
                groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
                return file.schema_arrow, [
                    Piece(group.num_rows, group.total_byte_size, partial(_read_group, path, i))
                    for i, group in enumerate(groups)
                ]
        table = _map_arrow(path)
        return table.schema, [
            Piece(batch.num_rows, 0, batch.column) for batch in table.to_batches()
        ]
    except pa.ArrowException as error:
        raise ValueError(f"{path} is no whole Parquet or Arrow file: {error}") from error


def _read_group(path: Path, group: int, column: str) -> Any:
    with pyarrow().parquet.ParquetFile(path) as file:
        return file.read_row_group(group, columns=[column]).column(column)


def _column(pieces: Sequence[Piece], name: str) -> NDArray[Any]:
    column = np.concatenate([piece.read(name).to_numpy(zero_copy_only=False) for piece in pieces])
    texts = column.dtype == object and all(isinstance(value, str) for value in column)
    return column.astype(str) if texts else column


def _map_arrow(path: Path) -> Any:
    """Map an Arrow file: of the file format (Feather) or of the stream format (Hugging Face)."""
    pa = pyarrow()
    try:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(pa.memory_map(str(path))).read_all()


def _is_binary(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _is_plain(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind))


def _image_column(schema: Any, path: Path) -> str:
    for name in ("image", "img"):
        if name in schema.names:
            return name
    is_struct = pyarrow().types.is_struct
    for field in schema:
        kind = field.type
        holds_bytes = is_struct(kind) and kind.get_field_index("bytes") >= 0
        if holds_bytes or _is_binary(kind):
            return str(field.name)
    raise ValueError(f"{path} has no column of images; it has {schema.names}")


def _names(schema: Any, label: str) -> list[str]:
    """Return the names of the classes in Hugging Face's metadata."""
    metadata = json.loads((schema.metadata or {}).get(b"huggingface", "{}"))
    names: list[str] = (
        metadata.get("info", {}).get("features", {}).get(label, {}).get("names") or []
    )
    return names


def _classes(
    values: NDArray[Any], columns: dict[str, NDArray[Any]], names: list[str]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return labels and classes, and take the column that names them out of the others."""
    if names:
        return values.astype(np.int64), tuple(names)
    found, first, labels = np.unique(values, return_index=True, return_inverse=True)
    for name in CLASS_NAMES:
        if name in columns and len(set(columns[name].tolist())) == len(found):
            return labels, tuple(map(str, columns.pop(name)[first]))
    return labels, tuple(map(str, found))
