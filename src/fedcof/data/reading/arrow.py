"""Tables of Arrow: Parquet and Arrow files, and whatever is such a table in memory.

pyarrow comes with ``fedcof[data]``.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedcof.data.images import ImageSource, LazyImages
from fedcof.data.reading.table import Kind, Table, nameless, reading
from fedcof.errors import OwnDataError, OwnDataWarning
from fedcof.installation import install_line

SUFFIXES = (".parquet", ".arrow", ".feather")
_BATCH = 8192
"""Rows of vectors that are read at a time."""

_END = b"\xff\xff\xff\xff\0\0\0\0"
"""How a stream of Arrow ends."""
KEPT_BYTES = 256 << 20
"""How much of the Parquet files stays in memory: the pieces that were read last."""


def pyarrow() -> Any:
    """Import pyarrow, or say how to get it."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.ipc
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "CSV, Parquet and Arrow files and data frames are read by pyarrow, which is not "
            f"installed; run: {install_line('data')}"
        ) from error
    return pyarrow


class Piece(NamedTuple):
    """Some rows of a column of images: how many, their size in memory, and how to read them."""

    rows: int
    size: int
    read: Callable[[], Any]
    folder: Path


class ImageColumn(LazyImages):
    """The images in a column of Parquet or Arrow files.

    Of Parquet files, a row group at a time is read, and the last ones are kept; Arrow files are
    mapped into memory. The images stay encoded.

    Parameters
    ----------
    pieces : sequence of Piece
        They hold encoded images; or paths, from the piece's folder; or structs of both, "bytes" and
        "path".
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._starts = np.cumsum([0, *(piece.rows for piece in pieces)])
        largest = max((piece.size for piece in pieces), default=0)
        self._read = lru_cache(max(2, KEPT_BYTES // max(largest, 1)))(self._read_piece)

    @classmethod
    def joined(cls, columns: Sequence[Self]) -> Self:
        """Return the images of several columns, one after the other."""
        return cls([piece for column in columns for piece in column._pieces])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def fetch(self, row: int) -> ImageSource:
        """Return the image of a row, encoded, or its path."""
        piece = int(np.searchsorted(self._starts, row, side="right")) - 1
        cell = self._read(piece)[row - int(self._starts[piece])].as_py()
        if isinstance(cell, dict):
            cell = cell.get("path") if cell.get("bytes") is None else cell["bytes"]
        # A cell without an image is an image that cannot be read.
        return self._pieces[piece].folder / cell if cell and isinstance(cell, str) else cell or b""

    def _read_piece(self, piece: int) -> Any:
        return self._pieces[piece].read()


class ArrowTable(Table):
    """A table of Arrow in memory, or mapped into it.

    Parameters
    ----------
    name : str
    table : pyarrow.Table
    folder : Path
        Where paths in it start.
    """

    def __init__(self, name: str, table: Any, folder: Path) -> None:
        self.name, self._table, self._folder = name, table, folder
        self._describe(table.schema)

    def _describe(self, schema: Any) -> None:
        metadata = schema.metadata or {}
        self._features = (
            json.loads(metadata.get(b"huggingface", "{}")).get("info", {}).get("features", {})
        )
        self.names = tuple(schema.names)
        self.kinds = {field.name: kind_of(field.type) for field in schema}
        self.index = _index_columns(schema)

    def read(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return columns as arrays."""
        return {name: to_numpy(self.name, name, self._table.column(name)) for name in names}

    def images(self, name: str) -> ImageColumn:
        """Return a column of images."""
        chunks = self._table.column(name).chunks
        return ImageColumn(
            [Piece(len(chunk), 0, partial(_same, chunk), self._folder) for chunk in chunks]
        )

    def class_names(self, name: str) -> tuple[str, ...]:
        """Return the names of the classes in Hugging Face's metadata."""
        return tuple(self._features.get(name, {}).get("names") or ())


class ParquetTable(ArrowTable):
    """A Parquet file.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.name, self._path, self._folder = str(path), path, path.parent
        with reading(path), pyarrow().parquet.ParquetFile(path) as file:
            self._groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
            self._describe(file.schema_arrow)

    def read(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return columns as arrays; vectors are read a batch at a time into their matrix."""
        vectors = [name for name in names if self.kinds[name] == "vector"]
        with reading(self._path), pyarrow().parquet.ParquetFile(self._path) as file:
            table = file.read([name for name in names if name not in vectors])
            rows = file.metadata.num_rows
            found = {name: _vectors(self.name, name, _chunks(file, name), rows) for name in vectors}
        others = {n: to_numpy(self.name, n, table.column(n)) for n in names if n not in vectors}
        return found | others

    def images(self, name: str) -> ImageColumn:
        """Return a column of images, of which a row group at a time is read."""
        return ImageColumn(
            [
                Piece(
                    group.num_rows,
                    group.total_byte_size,
                    partial(_read_group, self._path, i, name),
                    self._folder,
                )
                for i, group in enumerate(self._groups)
            ]
        )


def open_arrow(path: Path) -> ArrowTable:
    """Open a Parquet or Arrow file.

    Raises
    ------
    OwnDataError
        If it is damaged.
    """
    if path.suffix.lower() == ".parquet":
        return ParquetTable(path)
    with reading(path):
        return ArrowTable(str(path), _map_arrow(path), path.parent)


def _chunks(file: Any, name: str) -> Iterator[Any]:
    for batch in file.iter_batches(_BATCH, columns=[name]):
        chunk = batch.column(0)
        yield chunk.storage if isinstance(chunk.type, pyarrow().BaseExtensionType) else chunk


def _read_group(path: Path, group: int, column: str) -> Any:
    with reading(path), pyarrow().parquet.ParquetFile(path) as file:
        return file.read_row_group(group, columns=[column]).column(column)


def _same(chunk: Any) -> Any:
    return chunk


def _map_arrow(path: Path) -> Any:
    """Map an Arrow file: of the file format (Feather) or of the stream format (Hugging Face)."""
    pa = pyarrow()
    content = pa.memory_map(str(path))
    if content.read(4) == b"FEA1":
        raise OwnDataError(
            f"{path} is of Feather's version 1, which is not read; save it as Parquet"
        )
    try:
        return pa.ipc.open_file(content).read_all()
    except pa.ArrowInvalid:
        content.seek(0)
        table = pa.ipc.open_stream(content).read_all()
    content.seek(max(0, content.size() - len(_END)))
    if content.read(len(_END)) != _END:
        warnings.warn(
            OwnDataWarning(f"{path} has no mark at its end: it may be cut short, and rows missing"),
            stacklevel=2,
        )
    return table


def to_numpy(where: str, name: str, column: Any) -> NDArray[Any]:
    """Return a column as an array; what is missing is NaN among floats, else None.

    Raises
    ------
    OwnDataError
        If it holds lists that are no vectors of one length.
    """
    pa = pyarrow()
    try:
        return _as_numpy(where, name, column)
    except (pa.ArrowException, NotImplementedError, TypeError) as error:
        raise OwnDataError(
            f"{where}: column {name!r} holds {column.type}, which is not read; save it as texts or "
            "numbers"
        ) from error


def _as_numpy(where: str, name: str, column: Any) -> NDArray[Any]:
    pa = pyarrow()
    types, kind = pa.types, column.type
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name.startswith("pandas."):  # periods are counted from 1970
            raise NotImplementedError
        chunks = [chunk.storage for chunk in column.chunks]
        column, kind = pa.chunked_array(chunks, kind.storage_type), kind.storage_type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        column, kind = column.cast(pa.list_(kind.value_type)), pa.list_(kind.value_type)
    if _is_list(kind):
        return _vectors(where, name, column.chunks, len(column))
    if types.is_decimal(kind):
        column = column.cast(pa.float64())
    if column.null_count and (types.is_integer(kind) or types.is_boolean(kind)):
        return np.array(column.to_pylist(), dtype=object)  # as floats, large ones would be rounded
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _vectors(where: str, name: str, chunks: Iterable[Any], rows: int) -> NDArray[Any]:
    """Return lists of one length as a matrix, without making objects of the numbers."""
    matrix: NDArray[Any] | None = None
    start = 0
    for chunk in chunks:
        if not len(chunk):
            continue
        block = _block(where, name, chunk, start)
        if len(block) == rows:
            return block
        if matrix is None:
            matrix = np.empty((rows, block.shape[1]), block.dtype)
        if block.shape[1] != matrix.shape[1]:
            raise OwnDataError(
                f"{where}: column {name!r}, row {start} has {block.shape[1]} numbers, row 0 has "
                f"{matrix.shape[1]}; all rows must be of one length"
            )
        matrix[start : start + len(block)] = block
        start += len(block)
    return np.empty((0, 1)) if matrix is None else matrix


def _block(where: str, name: str, chunk: Any, start: int) -> NDArray[Any]:
    pa = pyarrow()
    if chunk.null_count:
        row = start + int(np.flatnonzero(chunk.is_null().to_numpy(zero_copy_only=False))[0])
        raise OwnDataError(f"{where}: column {name!r}, row {row} is empty; expected a vector")
    if not pa.types.is_fixed_size_list(chunk.type):
        lengths = np.diff(chunk.offsets.to_numpy())
        if (lengths != lengths[0]).any():
            row = int((lengths != lengths[0]).argmax())
            raise OwnDataError(
                f"{where}: column {name!r}, row {start + row} has {lengths[row]} numbers, row "
                f"{start} has {lengths[0]}; all rows must be of one length"
            )
    values = pa.chunked_array([chunk.flatten()])
    if _is_list(values.type):
        raise OwnDataError(
            f"{where}: column {name!r} holds lists of lists; expected a vector in each "
            "row: flatten them"
        )
    flat = to_numpy(where, name, values)
    if flat.dtype == object:
        gone = [place for place, value in enumerate(flat.tolist()) if value is None]
        if gone:
            row, position = divmod(gone[0], len(flat) // len(chunk))
            raise OwnDataError(
                f"{where}: {name!r}, position {position}, row {start + row} is missing; fill it, "
                "or take the row out"
            )
    return flat.reshape(len(chunk), -1)


def kind_of(kind: Any) -> Kind:
    """Return what a column of this type of Arrow holds."""
    pa = pyarrow()
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if isinstance(kind, pa.BaseExtensionType):  # such as tensors; but a period is no number
        kind = kind.storage_type if _is_list(kind.storage_type) else pa.null()
    holds_bytes = types.is_struct(kind) and {"bytes", "path"} & {field.name for field in kind}
    held: dict[Kind, bool] = {
        "number": types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind),
        "text": types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind),
        "image": types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or bool(holds_bytes),
        "vector": _is_list(kind)
        and (_is_list(kind.value_type) or kind_of(kind.value_type) == "number"),
    }
    return next((name for name, holds in held.items() if holds), "other")


def _is_list(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _index_columns(schema: Any) -> frozenset[str]:
    """Return the columns that pandas' metadata calls the index, and those that are called so."""
    metadata = json.loads((schema.metadata or {}).get(b"pandas", "{}"))
    named = [name for name in metadata.get("index_columns", ()) if isinstance(name, str)]
    return frozenset(named) | nameless(schema.names)
