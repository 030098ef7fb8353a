"""What a label or a client's id may be, and how every form of them becomes one.

A label is an integer of 64 bits or a text, a client's id a text. Numbers are never rounded and
texts are never trimmed; texts are brought to Unicode's form NFC, so that a word is one class
however it was typed. What is missing is an error that names the rows.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import SummaryError, first_of

MAX_CLASS_NAME = 200
"""Characters of a class that is a string."""

_INT64 = np.iinfo(np.int64)
_EXACT = 2**53
"""Below it, every integer has a float64 of its own."""

_NO_LABEL = frozenset({"", "nan", "<na>", "nat", "na", "n/a", "#n/a", "null"})
_NO_CLIENT = _NO_LABEL | {"none"}
_NAMED_ROWS = 5


def as_labels(labels: ArrayLike) -> NDArray[Any]:
    """Return labels as a 1-d array of int64 or of str.

    Parameters
    ----------
    labels : (n,) array_like
        Integers, booleans, floats that are whole numbers, texts or bytes in UTF-8; in a list, an
        array of NumPy or a column of pandas, nullable, categorical or backed by Arrow.

    Raises
    ------
    SummaryError
        If one is missing or of another type, an integer does not fit, or numbers and texts are
        mixed; the row is named.
    """
    array = _plain(labels, "label", _NO_LABEL)
    if array.dtype.kind == "U" and np.strings.str_len(array).max(initial=0) > MAX_CLASS_NAME:
        row = int(np.strings.str_len(array).argmax())
        raise SummaryError(
            "labels", f"the label of row {row} has more than {MAX_CLASS_NAME} characters"
        )
    return array


def as_client_ids(clients: ArrayLike) -> NDArray[np.str_]:
    """Return the ids of clients as a 1-d array of str.

    Parameters
    ----------
    clients : (n,) array_like
        As `as_labels` takes them. Texts that stand for what is missing, such as "None" and "NA",
        are refused too: nobody's rows may become those of a client called so.

    Raises
    ------
    SummaryError
        As `as_labels`.
    """
    return np.asarray(_plain(clients, "client", _NO_CLIENT).astype(str))


def near_twins(names: Iterable[Any]) -> list[tuple[str, ...]]:
    """Return the texts that differ only by case, white space, or letters of one look.

    Examples
    --------
    >>> near_twins(["benign", "BENIGN", "malignant", " benign"])
    [(' benign', 'BENIGN', 'benign')]
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(set(map(str, names))):
        shown = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
        folded = unicodedata.normalize("NFKC", shown).casefold()
        groups[" ".join(folded.split())].append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def name_rows(rows: Sequence[int] | NDArray[np.integer[Any]]) -> str:
    """Return rows in words, the first few by number; row 0 is the first.

    Examples
    --------
    >>> name_rows([3]), name_rows([0, 4])
    ('row 3', 'rows 0, 4')
    """
    return f"row{'s' * (len(rows) > 1)} {first_of([str(int(row)) for row in rows], _NAMED_ROWS)}"


def without_masked(values: Any) -> NDArray[Any]:
    """Return a masked array as one of objects, with None for what is masked."""
    array = np.asarray(np.ma.getdata(values)).astype(object)
    array[np.ma.getmaskarray(values)] = None
    return array


def is_missing(value: object) -> bool:
    """Return whether a value stands for none: None, NaN, or pandas' NA and NaT."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 - NaN and NaT are not equal to themselves
    except (TypeError, ValueError):  # NA is neither, and says so
        return type(value).__name__ == "NAType"


def _plain(values: ArrayLike, what: str, missing: frozenset[str]) -> NDArray[Any]:
    """Return integers as int64 and texts as str in form NFC."""
    if np.ma.is_masked(values):
        values = without_masked(values)
    # NumPy would make texts of a list of numbers and texts, and floats of large integers.
    array = (
        np.array([_unpacked(value) for value in values], dtype=object)
        if isinstance(values, list | tuple)
        else np.asarray(values)
    )
    if array.ndim != 1:
        raise SummaryError(f"{what}s", f"{what}s must be 1-d, these have shape {array.shape}")
    if array.size == 0:  # an empty list is an array of floats to NumPy
        return array.astype(np.int64)
    if array.dtype.kind in "OST":  # objects, bytes, and NumPy's texts of any length
        return _from_objects([_unpacked(value) for value in array.tolist()], what, missing)
    if array.dtype.kind == "U":
        return _texts(array, what, missing)
    if array.dtype.kind == "f":
        return _whole(array, what)
    if array.dtype.kind not in "biu":
        raise SummaryError(
            f"{what}s",
            f"{what}s must be integers or texts, these have dtype {array.dtype}; give them as "
            "texts",
        )
    if array.max() > _INT64.max:
        row = int(array.argmax())
        raise SummaryError(
            f"{what}s",
            f"the {what} {array[row]} of row {row} is too large for int64; give it as a text",
        )
    return array.astype(np.int64)


def _whole(array: NDArray[Any], what: str) -> NDArray[np.int64]:
    _refuse_missing(np.flatnonzero(np.isnan(array)), what)
    bad = np.flatnonzero((array != np.floor(array)) | (np.abs(array) >= _EXACT))
    if len(bad):
        raise SummaryError(
            f"{what}s",
            f"the {what} of {name_rows(bad)} is {array[bad[0]]}, of dtype {array.dtype}; expected "
            "an integer or a text",
        )
    return array.astype(np.int64)


def _unpacked(value: Any) -> Any:
    """Return a value in Python's own type."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # of NumPy or torch
        return value.item()
    return value


def _from_objects(values: list[Any], what: str, missing: frozenset[str]) -> NDArray[Any]:
    _refuse_missing([row for row, value in enumerate(values) if is_missing(value)], what)
    kinds = {type(value) for value in values}
    if kinds <= {bool, int, float}:
        exact = [int(v) if not isinstance(v, float) or v == v // 1 else None for v in values]
        bad = [
            row
            for row, (value, number) in enumerate(zip(values, exact, strict=True))
            if number is None
            or not _INT64.min <= number <= _INT64.max
            or (isinstance(value, float) and abs(value) >= _EXACT)
        ]
        if bad:
            raise SummaryError(
                f"{what}s",
                f"the {what} of {name_rows(bad)} is {values[bad[0]]!r}; expected an integer that "
                "fits int64, or a text",
            )
        return np.array(exact, dtype=np.int64)
    texts = []
    for row, value in enumerate(values):
        if isinstance(value, bytes):
            try:
                value = value.decode()  # noqa: PLW2901
            except UnicodeDecodeError:
                raise SummaryError(
                    f"{what}s", f"the {what} of row {row} is bytes that are no text in UTF-8"
                ) from None
        if not isinstance(value, str):
            raise SummaryError(
                f"{what}s",
                f"the {what} of row {row} is {value!r}, a {type(value).__name__}, that of row "
                f"{int(row == 0)} a {type(values[int(row == 0) % len(values)]).__name__}; expected "
                "an integer in each row, or a text in each",
            )
        texts.append(value)
    longest = max(map(len, texts))
    if longest > _LONGEST_TEXT:  # NumPy gives all texts the length of the longest
        row = max(range(len(texts)), key=lambda row: len(texts[row]))
        raise SummaryError(f"{what}s", f"the {what} of row {row} has {longest:,} characters")
    return _texts(np.array(texts), what, missing)


_LONGEST_TEXT = 2000


def _texts(array: NDArray[np.str_], what: str, missing: frozenset[str]) -> NDArray[np.str_]:
    distinct = set(array.tolist())
    if gone := {text for text in distinct if text.strip().casefold() in missing}:
        rows = np.flatnonzero(np.isin(array, list(gone)))
        _refuse_missing(rows, what, str(array[rows[0]]))
    normal = {text: unicodedata.normalize("NFC", text) for text in distinct}
    if all(text == kept for text, kept in normal.items()):
        return array
    return np.array([normal[text] for text in array.tolist()])


def _refuse_missing(
    rows: Sequence[int] | NDArray[np.integer[Any]], what: str, text: str = ""
) -> None:
    if len(rows):
        has = "has" if len(rows) == 1 else "have"
        called = f" (it reads {text!r})" if text else ""
        raise SummaryError(
            f"{what}s",
            f"{name_rows(rows)} {has} no {what}{called}; give each row its {what}, or take these "
            "rows out",
        )
