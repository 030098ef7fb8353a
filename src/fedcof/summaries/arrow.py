"""Summaries as a table of Arrow, and so as Parquet files: a row a mean, or whatever has a class.

=========  ==========================================================================
column     what it holds
=========  ==========================================================================
client     the client's id; its rows stand one after the other, in one row group
class      the class of the row, an integer or a text
count      the samples behind the row
n          the samples behind all rows of the client, so that none of them can be lost
an array   of the statistic, in the bytes of its coding. One with a row a class has a
           value in every row; one a client has in the client's first row alone
=========  ==========================================================================

Tables that other programs write may have texts, bytes and whole numbers of any type that Arrow has
for them, dictionaries among them, and an array with a row a class in float32 as lists of numbers.

What all rows have in common is in the schema's metadata, as JSON under ``fedcof``: the kind and the
schema of the summaries, the coding, the origin, and the lengths of the axes. Every row is coded for
itself: the centre that some codings send beside the rows of a client is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcof.codings import CODINGS, Float32
from fedcof.errors import SummaryError
from fedcof.installation import install_line
from fedcof.labels import as_labels
from fedcof.summaries.base import (
    SCHEMA,
    Summary,
    as_counts,
    common_origin,
    kind_of,
    ordered,
)
from fedcof.summaries.client_rows import ClientRows

if TYPE_CHECKING:
    import pyarrow

KEY = b"fedcof"
"""The key of the schema's metadata."""

COUNTED = ("client", "class", "count", "n")
"""The columns that every table has."""

_LONGEST_AXIS = 2**31 - 1


def import_arrow() -> Any:
    """Return the package pyarrow.

    Raises
    ------
    ImportError
        If it is not installed, with the command that installs it.
    """
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f"pyarrow is not installed: {install_line('data')}") from None
    return pyarrow


@dataclass(frozen=True, eq=False)
class RowsOfClients:
    """Whose rows there are, of which class and how many samples: a table without its statistic.

    Parameters
    ----------
    client_ids : tuple of str
    rows_per_client : ndarray of int64, shape (clients,)
    classes : ndarray of int64 or str, shape (rows,)
    counts : ndarray of int64, shape (rows,)
    """

    client_ids: tuple[str, ...]
    rows_per_client: NDArray[np.int64]
    classes: NDArray[Any]
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """What all rows of a table have in common.

    Parameters
    ----------
    kind : str
        That of the summaries.
    coding : str
        How their arrays stand there.
    origin : mapping of str to str
        What made the features.
    lengths : mapping of str to int
        The lengths of the axes that are the same at all clients.
    """

    kind: str
    coding: str
    origin: Mapping[str, str]
    lengths: Mapping[str, int]

    @classmethod
    def of_schema(cls, schema: pyarrow.Schema) -> Layout:
        """Read the metadata of a table and check its columns.

        Raises
        ------
        SummaryError
            If it is not a table of summaries that is read here.
        """
        try:
            known = json.loads((schema.metadata or {})[KEY])
            layout = cls(
                str(known["kind"]),
                str(known["coding"]),
                {str(name): str(text) for name, text in known["origin"].items()},
                {str(name): int(length) for name, length in known["lengths"].items()},
            )
            version = known["schema"]
            if "dim" not in layout.lengths or not all(
                0 < length <= _LONGEST_AXIS for length in layout.lengths.values()
            ):
                raise ValueError(layout.lengths)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
            raise SummaryError(
                "schema",
                "it is no table of summaries: its schema has no metadata of fedcof, or not all "
                "of it. `fedcof collect` and `fedcof summarize --append` write such tables; a "
                "program that writes one anew must keep what the old one has under 'fedcof'",
            ) from None
        if version != SCHEMA:
            raise SummaryError("schema", f"its summaries have schema {version}, read is {SCHEMA}")
        layout.codings  # noqa: B018  # so that another kind or coding is told now
        columns = [*COUNTED, *layout.summary_type.axes]
        if missing := [name for name in columns if schema.get_field_index(name) < 0]:
            raise SummaryError("schema", f"a table without the column {missing[0]!r}, or with two")
        return layout

    @property
    def summary_type(self) -> type[Summary]:
        """The class of the summaries."""
        return kind_of(self.kind)

    @property
    def codings(self) -> dict[str, str]:
        """The coding of every array."""
        try:
            return self.summary_type.codings_of(self.coding)
        except ValueError as error:
            raise SummaryError("coding", f"unknown coding {self.coding!r}: {error}") from None

    def metadata(self) -> dict[bytes, bytes]:
        """Return what the schema of the table says."""
        known = {**vars(self), "schema": SCHEMA}
        return {KEY: json.dumps(known, sort_keys=True).encode()}

    def width(self, name: str) -> int:
        """Return the bytes of an array in a row."""
        return row_bytes(self.codings[name], self.shape(name, rows=1))

    def shape(self, name: str, rows: int) -> tuple[int, ...]:
        """Return the shape of an array of so many rows of one client; -1 is its own."""
        known = {**self.lengths, "rows": rows, "clients": 1}
        return tuple(known.get(axis, -1) for axis in self.summary_type.axes[name])


def row_bytes(coding: str, shape: tuple[int, ...]) -> int:
    """Return the bytes of one row of an array of a shape, of which the first axis is the rows."""
    (part,) = CODINGS[coding].layout((1, *shape[1:])).values()
    return int(part.nbytes)


def to_arrow(summaries: Iterable[Summary], coding: str = Float32.name) -> pyarrow.Table:
    """Return summaries as a table of Arrow; see this module for its columns.

    Parameters
    ----------
    summaries : iterable of Summary
        Of one kind, which fit together. One of several clients is taken apart.
    coding : str, default "float32"
        As for `Summary.to_bytes`. What was decoded of a coding is coded again without a loss,
        unless the rows of a client had a centre of their own.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    SummaryError
        If the summaries do not fit together, a client has no name, a value is too large for the
        coding, or a merged summary does not keep its clients apart.
    """
    pa = import_arrow()
    given = list(summaries)
    kind = type(given[0]) if given else Summary
    parts = [own for part in ordered(given, kind) for own in part.apart()]
    parts.sort(key=lambda part: part.client_ids)
    if not parts[0].client_ids[0]:
        raise SummaryError("client-ids", "a client without a name: in a table every one needs one")
    first = parts[0]
    layout = Layout(
        first.kind, coding, common_origin(parts), {**first.axis_lengths, "dim": first.dim}
    )
    rows = np.array([len(part.classes) for part in parts])
    classes = np.concatenate([part.classes for part in parts])
    columns: dict[str, Any] = {
        "client": pa.array([part.client_ids[0] for part in parts]).take(
            pa.array(np.repeat(np.arange(len(parts)), rows))
        ),
        "class": pa.array(classes if classes.dtype.kind != "U" else classes.tolist()),
        "count": pa.array(np.concatenate([part.counts for part in parts])),
        "n": pa.array(np.repeat([part.total for part in parts], rows)),
    }
    for name, axes in first.axes.items():
        arrays = [getattr(part, name) for part in parts]
        if axes[0] == "rows":
            packed = _encoded(layout, name, np.concatenate(arrays), parts)
            width = packed.nbytes // len(packed)
            columns[name] = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(width), len(packed), [None, pa.py_buffer(packed.tobytes())]
            )
        else:
            values: list[bytes | None] = [None] * int(rows.sum())
            for start, array, part in zip(np.cumsum(rows) - rows, arrays, parts, strict=True):
                values[start] = _encoded(layout, name, array, [part]).tobytes()
            columns[name] = pa.array(values, type=pa.binary())
    return pa.table(columns).replace_schema_metadata(layout.metadata())


def _encoded(
    layout: Layout, name: str, array: NDArray[Any], parts: Sequence[Summary]
) -> NDArray[Any]:
    try:
        (packed,) = CODINGS[layout.codings[name]].encode(array).values()
    except OverflowError as error:
        raise SummaryError(
            "overflow",
            f"{name} holds {error}; scale the features",
            client_id=parts[0].client_ids[0] if len(parts) == 1 else "",
        ) from None
    return np.ascontiguousarray(packed)


def from_arrow(table: pyarrow.Table) -> list[Summary]:
    """Return the summaries of a table that `to_arrow` made, one a client.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    SummaryError
        If the table is none of summaries, or one of them breaks a rule.
    """
    import_arrow()
    layout = Layout.of_schema(table.schema)
    rows = Table(layout, table)
    for error in rows.broken().values():
        raise error
    return [own for part in rows.summaries() for own in part.apart()]


class Table:
    """The rows of some clients, which stand together there.

    Parameters
    ----------
    layout : Layout
    table : pyarrow.Table
        With the columns `COUNTED`, and those of the statistic if it is asked for.
    left_out : frozenset of str, default empty
        Clients whose rows are passed over.

    Raises
    ------
    SummaryError
        If a column is of another type than `to_arrow` gives it.

    Notes
    -----
    Clients whose rows do not stand together or lack a value, and rows without a client, are not
    among the rows; `broken` has them.
    """

    def __init__(
        self, layout: Layout, table: pyarrow.Table, left_out: frozenset[str] = frozenset()
    ) -> None:
        self.layout = layout
        table = without_views(table).combine_chunks()
        import pyarrow as pa

        coded = client_names(table).dictionary_encode()
        known: list[str] = coded.dictionary.to_pylist()
        index = coded.indices.to_numpy()
        starts = _starts(index)
        faults = {
            known[k]: error for k, error in _faults(layout, table, known, index, starts).items()
        }
        self._faults = {name: faults[name] for name in sorted(faults.keys() - left_out)}
        away = left_out | faults.keys()
        gone = [place for place, name in enumerate(known) if name in away] if away else []
        if gone:
            kept = ~np.isin(index, gone)
            table, index = table.filter(pa.array(kept)), index[kept]
            table, starts = table.combine_chunks(), _starts(index)
        self._table = table
        self.client_ids = tuple(map(known.__getitem__, index[starts].tolist()))
        self._starts = np.append(starts, len(index))
        self.rows_per_client = np.diff(self._starts)
        self.counts = _integers(table, "count")
        self.classes = _labels(table)

    def __len__(self) -> int:
        return len(self.client_ids)

    def broken(self) -> dict[str, SummaryError]:
        """Return the clients whose rows are missing, apart or without a value, or count nothing.

        Rows without a client stand under the empty name.
        """
        found = dict(self._faults)
        n, starts = _integers(self._table, "n"), self._starts[:-1]
        if not len(starts):
            return found
        wrong = np.maximum.reduceat(n != np.repeat(n[starts], self.rows_per_client), starts)
        sums = np.add.reduceat(self.counts.astype(np.float64), starts)
        wrong |= sums != n[starts]
        for place in np.flatnonzero(wrong).tolist():
            name = self.client_ids[place]
            found[name] = SummaryError(
                "shape",
                f"has {int(sums[place]):,} samples in its {self.rows_per_client[place]} rows, but "
                f"n says {int(n[starts[place]]):,}; are all of its rows there? They stand one "
                "after the other, in one row group",
                client_id=name,
            )
        try:
            as_counts(self.counts)
        except SummaryError:
            for place, rows in enumerate(self._slices()):
                try:
                    as_counts(self.counts[rows])
                except SummaryError as error:
                    name = self.client_ids[place]
                    found[name] = SummaryError(error.code, error.message, client_id=name)
        return found

    def rows(self) -> RowsOfClients:
        """Return whose rows these are, without the statistic."""
        return RowsOfClients(self.client_ids, self.rows_per_client, self.classes, self.counts)

    def without(self, client_ids: Iterable[str]) -> Table:
        """Return the rows of the other clients."""
        gone = frozenset(client_ids)
        return Table(self.layout, self._table, gone) if gone else self

    def summaries(self) -> list[Summary]:
        """Return the clients' summaries: one of all, where every array has a row a class.

        Raises
        ------
        SummaryError
            If one breaks a rule; which of them it is, `each` finds.
        """
        kind = self.layout.summary_type
        by_row = issubclass(kind, ClientRows) and all(a[0] == "rows" for a in kind.axes.values())
        if not by_row or len(self) < 2:
            return [self._summary([place]) for place in range(len(self))]
        order = sorted(range(len(self)), key=self.client_ids.__getitem__)
        return [self._summary(order)]

    def each(self) -> Iterator[tuple[str, Summary | SummaryError]]:
        """Yield every client with its summary, or with what is wrong with it."""
        for place, name in enumerate(self.client_ids):
            try:
                yield name, self._summary([place])
            except SummaryError as error:
                yield name, SummaryError(error.code, error.message, client_id=name)

    def _slices(self) -> list[slice]:
        return [slice(first, last) for first, last in pairwise(self._starts.tolist())]

    def _summary(self, places: list[int]) -> Summary:
        """Return the summary of the clients at some places, in their order."""
        if places == list(range(len(self))):
            rows: Any = slice(None)
        elif len(places) == 1:
            rows = slice(*self._starts[places[0] : places[0] + 2].tolist())
        else:
            slices = self._slices()
            rows = np.concatenate([np.arange(slices[k].start, slices[k].stop) for k in places])
        fields: dict[str, Any] = {
            name: self._array(name, rows) for name in self.layout.summary_type.axes
        }
        return self.layout.summary_type(
            client_ids=tuple(map(self.client_ids.__getitem__, places)),
            rows_per_client=self.rows_per_client[places],
            classes=self.classes[rows],
            counts=self.counts[rows],
            origin=self.layout.origin,
            **fields,
        )

    def _array(self, name: str, rows: Any) -> NDArray[Any]:
        coding = self.layout.codings[name]
        try:
            if self.layout.summary_type.axes[name][0] != "rows":
                packed = self._bytes_of_client(name, rows)
                shape = self.layout.shape(name, 0)
            elif (column := _values(_column(self._table, name))).type.num_fields:
                numbers = self._numbers_by_row(name, column)
                return np.asarray(numbers[rows])
            else:
                packed = self._bytes_by_row(name, column)[rows]
                shape = self.layout.shape(name, len(packed))
            return CODINGS[coding].decode({"": _unpacked(packed, coding, shape)})
        except SummaryError as error:
            raise SummaryError(error.code, f"{name} {error.message}") from None

    def _numbers_by_row(self, name: str, column: Any) -> NDArray[np.floating[Any]]:
        """Return an array whose rows are lists of numbers."""
        import pyarrow as pa

        lists = f"is a column of {column.type}"
        if self.layout.codings[name] != Float32.name:
            raise SummaryError("schema", f"{lists}, expected bytes of {self.layout.coding}")
        values = column.flatten()
        if not pa.types.is_floating(values.type):
            raise SummaryError("schema", f"{lists}, expected floats")
        numbers: NDArray[Any] = values.to_numpy(zero_copy_only=False)
        if numbers.dtype == np.float16:
            numbers = numbers.astype(np.float32)
        shape = self.layout.shape(name, len(column))
        if numbers.size != prod(shape):
            each = prod(shape[1:])
            raise SummaryError("shape", f"{lists}, expected {each} numbers in each")
        return numbers.reshape(shape)

    def _bytes_by_row(self, name: str, column: Any) -> NDArray[np.uint8]:
        """Return the bytes of an array, a row a row, without a copy."""
        import pyarrow as pa

        width = self.layout.width(name)
        if _is_bytes(column.type):
            column = column.cast(pa.binary()).cast(pa.binary(width))
        elif not pa.types.is_fixed_size_binary(column.type):
            raise SummaryError(
                "schema", f"is a column of {column.type}, expected bytes of a coding"
            )
        size = column.type.byte_width
        if size != width:
            raise SummaryError("shape", f"has rows of {size} bytes, expected {width}")
        data = column.buffers()[1]
        flat = np.frombuffer(data, np.uint8, len(column) * size, column.offset * size)
        return flat.reshape(len(column), size)

    def _bytes_of_client(self, name: str, rows: slice) -> NDArray[np.uint8]:
        column = _column(self._table, name, nulls=True)
        first = column[rows.start or 0].as_py()
        if first is None:
            raise SummaryError("shape", "is not there in the client's first row")
        if not isinstance(first, bytes):
            raise SummaryError(
                "schema", f"is a column of {column.type}, expected bytes of a coding"
            )
        return np.frombuffer(first, np.uint8)


def _starts(index: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return where another client begins."""
    return np.concatenate([[0], np.flatnonzero(index[1:] != index[:-1]) + 1])[: len(index)]


def client_names(table: pyarrow.Table) -> Any:
    """Return the column of the clients as texts, empty where it lacks one.

    Raises
    ------
    SummaryError
        If it has none.
    """
    names = _values(_column(table, "client", nulls=True))
    if not _is_text(names.type):
        raise SummaryError("schema", f"the column 'client' is {names.type}, expected texts")
    return names.fill_null("") if names.null_count else names


def _faults(
    layout: Layout,
    table: pyarrow.Table,
    known: Sequence[str],
    index: NDArray[np.integer[Any]],
    starts: NDArray[np.int64],
) -> dict[int, SummaryError]:
    """Return the clients, by their places among those that are known, whose rows are not usable."""
    found: dict[int, SummaryError] = {}

    def tell(rows: NDArray[np.bool_], code: str, message: str) -> None:
        for place in np.unique(index[rows]).tolist():
            found[place] = SummaryError(code, message, client_id=known[place])

    by_row = [name for name, axes in layout.summary_type.axes.items() if axes[0] == "rows"]
    for name in table.column_names:
        column = table.column(name)
        if column.null_count and name in (*COUNTED[1:], *by_row):
            tell(column.is_null().to_numpy(), "schema", f"a row lacks its {name!r}")
        if name in by_row and (lengths := _lengths(column)) is not None:
            kind, expected = _length_of(layout, name, column.type)
            wrong = (lengths != expected) & column.is_valid().to_numpy()
            odd = sorted(set(lengths[wrong].tolist()))[:3]
            told = f"{name} has {', '.join(map(str, odd))} {kind} in a row, expected {expected}"
            tell(wrong, "shape", told)
        elif name in ("count", "n") and str(column.type) in ("float", "double"):
            numbers = column.to_numpy()
            broken = ~(numbers == np.floor(numbers)) & column.is_valid().to_numpy()
            tell(broken | np.isinf(numbers), "counts", f"its {name!r} is no whole number in a row")
    for place in np.flatnonzero(np.bincount(index[starts]) > 1).tolist():
        found[place] = SummaryError(
            "duplicate-client", "its rows do not stand one after the other", client_id=known[place]
        )
    if "" in known:
        found[known.index("")] = SummaryError("client-ids", "a row whose client has no name")
    return found


def _length_of(layout: Layout, name: str, kind: Any) -> tuple[str, int]:
    """Return in what the lengths of a column's rows are counted, and what they should be."""
    if kind.num_fields:
        return "numbers", prod(layout.shape(name, 1)[1:])
    return "bytes", layout.width(name)


def _lengths(column: Any) -> NDArray[np.int64] | None:
    """Return the lengths of rows of bytes or lists; None where all rows have one length."""
    import pyarrow as pa
    from pyarrow import compute

    kind = column.type
    if _is_bytes(kind):
        lengths = compute.binary_length(column.cast(pa.large_binary()))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = compute.list_value_length(column)
    else:
        return None
    return np.asarray(lengths.fill_null(0).to_numpy()).astype(np.int64)


def _is_bytes(kind: Any) -> bool:
    """Return whether a type of Arrow is one of bytes, of any length."""
    return str(kind) in ("binary", "large_binary")


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string")


def without_views(table: pyarrow.Table) -> pyarrow.Table:
    """Return a table whose texts and bytes are of types that Arrow can filter."""
    import pyarrow as pa

    plain = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    for place, field in enumerate(table.schema):
        if str(field.type) in plain:
            column = table.column(place).cast(plain[str(field.type)])
            table = table.set_column(place, field.name, column)
    return table


def _values(column: Any) -> Any:
    """Return the values of a column in place of the places in a dictionary."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def _unpacked(packed: NDArray[np.uint8], coding: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return bytes as the coding's array, of the shape that the statistic will have."""
    known = tuple(2 if axis < 0 else axis for axis in shape)  # any length that is no edge case
    (part,) = CODINGS[coding].layout(known).values()
    if 0 in shape or packed.size == 0:
        return np.zeros([max(axis, 0) for axis in shape], dtype=np.float32)
    target = [-1 if axis < 0 else length for axis, length in zip(shape, part.shape, strict=True)]
    unit = part.dtype.itemsize * prod(length for length in target if length > 0)
    if packed.size % unit or (packed.size != unit and -1 not in target):
        raise SummaryError("shape", f"has {packed.size} bytes, expected {unit} each")
    return np.ascontiguousarray(packed).reshape(-1).view(part.dtype).reshape(target)


def _column(table: pyarrow.Table, name: str, *, nulls: bool = False) -> Any:
    """Return a column as one array."""
    import pyarrow as pa

    column = table.column(name)
    if column.null_count and not nulls:
        raise SummaryError("schema", f"the column {name!r} lacks {column.null_count:,} values")
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)


def _integers(table: pyarrow.Table, name: str) -> NDArray[np.int64]:
    column = _values(_column(table, name))
    import pyarrow as pa

    if not (pa.types.is_integer(column.type) or str(column.type) in ("float", "double")):
        raise SummaryError("schema", f"the column {name!r} is {column.type}, expected int64")
    column = column.cast(pa.int64())  # refuses what is too large
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _labels(table: pyarrow.Table) -> NDArray[Any]:
    """Return the classes, numbers or texts."""
    column = _values(_column(table, "class"))
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return _integers(table, "class")
    if not _is_text(column.type):
        raise SummaryError("schema", f"the column 'class' is {column.type}, not int64 or texts")
    coded = column.dictionary_encode()
    if not len(coded.dictionary):
        return np.zeros(0, dtype="U1")
    return np.asarray(as_labels(coded.dictionary.to_pylist())[coded.indices.to_numpy()])
