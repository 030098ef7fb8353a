"""CSV as it is found: any delimiter, decimal commas, a byte order mark, quoted lines, compressed.

The label and the client are read as texts, so that 007 does not become 7.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedcof.data.reading.arrow import ArrowTable, pyarrow
from fedcof.data.reading.columns import check_names, textual
from fedcof.data.reading.table import reading
from fedcof.data.reading.values import numbers_in
from fedcof.errors import NoRowsError, OwnDataError, OwnDataWarning

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.bz2", ".tsv.bz2")

_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE = 1 << 16
_QUOTED = re.compile(rb'"[^"]*"')
_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe\0\0", "utf-32-le"), (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"),
)  # fmt: skip
_WESTERN = "cp1252"
_LONGEST_FIELD = 1 << 30
_TRAILING = "\0"
"""Begins what columns behind the last name are called here."""
_WITH_POINT = re.compile(r"\s*[-+]?\d+\.\d+\s*")
_SEPARATOR = re.compile(rb"sep=(.)\r?\n", re.IGNORECASE)
"""The line by which Excel says what stands between fields."""


class CsvTable(ArrowTable):
    """A CSV file.

    Parameters
    ----------
    path : Path
    label, client : str
        The columns that the user named.
    """

    def __init__(self, path: Path, label: str, client: str) -> None:
        with reading(path):
            table, texts = _parse(path, _content(path), label, client)
        self._numbers = set(texts)
        super().__init__(str(path), table, path.parent)

    def read(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return columns as arrays; labels that are integers, as integers."""
        return {
            name: numbers_in(array) if name in self._numbers else array
            for name, array in super().read(names).items()
        }


def is_csv(path: Path) -> bool:
    """Return whether a file's name is that of a CSV file."""
    return path.name.lower().endswith(SUFFIXES)


def _content(path: Path) -> bytes:
    """Return what a file holds, in UTF-8."""
    data = path.read_bytes()
    suffix = path.suffix.lower()
    if suffix in (".gz", ".bz2"):
        data = gzip.decompress(data) if suffix == ".gz" else bz2.decompress(data)
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding).encode()
    if b"\0" in data[:_SAMPLE]:
        raise OwnDataError(f"{path} is no text: it holds zero bytes; save it as CSV in UTF-8")
    try:
        data.decode()
    except UnicodeDecodeError:
        try:
            western = data.decode(_WESTERN).encode()
        except UnicodeDecodeError:
            raise OwnDataError(
                f"{path} is neither in UTF-8 nor in {_WESTERN}; save it in UTF-8"
            ) from None
        warnings.warn(
            OwnDataWarning(
                f"{path} is not in UTF-8 and was read as {_WESTERN}; where letters are wrong, save "
                "it in UTF-8"
            ),
            stacklevel=2,
        )
        return western
    return data


def _parse(path: Path, data: bytes, label: str, client: str) -> tuple[Any, list[str]]:
    """Return a table of Arrow, and the columns that were left as texts."""
    pa = pyarrow()
    data = data.lstrip(b"\r\n")
    if not data.strip():
        raise OwnDataError(
            f"{path} is empty; expected a line with the names of the columns, then a line for each "
            "row"
        )
    said = _SEPARATOR.match(data)
    if said:
        data = data[said.end() :]
    first = _QUOTED.sub(b"", data[: data.find(b"\n") + 1 or None]).decode()
    delimiter = said[1].decode() if said else max(_DELIMITERS, key=first.count)
    _check_quotes(path, data, delimiter)
    names = [name.strip() for name in next(_lines(data, delimiter))]
    named = len(names)
    while named > 1 and not names[named - 1]:
        named -= 1
    _check_header(path, names[:named])
    names[named:] = (f"{_TRAILING}{position}" for position in range(named, len(names)))
    texts = textual(names, label, client)
    comma = _has_decimal_comma(data, delimiter)
    try:
        table = pa.csv.read_csv(
            io.BytesIO(data),
            read_options=pa.csv.ReadOptions(column_names=names, skip_rows_after_names=1),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(texts, pa.string()),
                decimal_point="," if comma else ".",
            ),
        )
    except pa.ArrowInvalid as error:
        if "columns, got" in str(error):
            raise OwnDataError(_fields_of_rows(path, data, delimiter)) from None
        raise
    if not len(table):
        raise NoRowsError(f"{path} has no rows: there is nothing to read")
    for name in names[named:]:
        if table.column(name).null_count < len(table):
            raise OwnDataError(f"{path}: column {names.index(name)} has no name; give it one")
        table = table.drop_columns([name])  # each line ends with delimiters
    if comma:
        _check_points(path, table, texts)
    return table, texts


def _check_points(path: Path, table: Any, texts: Sequence[str]) -> None:
    """Refuse a column of numbers with a point where others have a comma: one of them is no number.

    Raises
    ------
    OwnDataError
    """
    for name in table.column_names:
        if name in texts or table.schema.field(name).type != pyarrow().string():
            continue
        values = [value for value in table.column(name).to_pylist() if value and value.strip()]
        if values and all(map(_WITH_POINT.fullmatch, values)):
            raise OwnDataError(
                f"{path}: column {name!r} has numbers with a point, such as {values[0]!r}, and "
                "another column has numbers with a comma; write all alike"
            )


def _has_decimal_comma(data: bytes, delimiter: str) -> bool:
    """Return whether a field is a number with a comma in it."""
    mark = re.escape(delimiter.encode())
    number = rb'(^|%s)"?\s*[-+]?\d+,\d+([eE][-+]?\d+)?\s*"?(%s|\r|\n|$)' % (mark, mark)
    return delimiter != "," and re.search(number, data, re.MULTILINE) is not None


def _lines(data: bytes, delimiter: str, *, strict: bool = False) -> Any:
    csv.field_size_limit(_LONGEST_FIELD)
    text = io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="")
    return csv.reader(text, delimiter=delimiter, strict=strict)


def _check_header(path: Path, names: list[str]) -> None:
    check_names(str(path), [name for name in names if name])
    for position, name in enumerate(names):
        if not name and 0 < position < len(names) - 1:
            raise OwnDataError(f"{path}: column {position} has no name; give each column one")


def _check_quotes(path: Path, data: bytes, delimiter: str) -> None:
    """Refuse a quote that is not closed: all lines up to the next quote would be one field.

    Raises
    ------
    OwnDataError
        With the line in which the field begins.
    """
    if b'"' not in data:
        return
    lines = _lines(data, delimiter, strict=True)
    begins = 1
    try:
        for _ in lines:
            begins = lines.line_num + 1
    except csv.Error as error:
        raise OwnDataError(
            f"{path}: in the row that begins in line {begins} a quote is opened and not closed "
            f"({error}); correct it, as the rows behind it would be lost"
        ) from None


def _fields_of_rows(path: Path, data: bytes, delimiter: str) -> str:
    """Say which row has more or fewer fields than the line with the names."""
    lines = _lines(data, delimiter)
    header = next(lines)
    expected = len(header)
    rows = (fields for fields in lines if fields)
    row, got = next((row, len(f)) for row, f in enumerate(rows) if len(f) != expected)
    text = (
        f"{path}: row {row} has {got} fields, the line with the names has {expected}, with "
        f"{delimiter!r} between them; quote fields that hold {delimiter!r}"
    )
    if header[0].startswith("#"):
        return f"{text}, and take out the lines before the names, such as {header[0][:40]!r}"
    if not row and got == expected + 1:
        return f"{text}, or name the first column too if it names the rows"
    return text
