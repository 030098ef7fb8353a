"""The values of a table as samples: features are finite numbers, labels and clients are there."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.data.reading.columns import CLASS_NAMES, Roles, find_roles, says_which
from fedcof.data.reading.own_data import Data, OwnData, Places, are_features
from fedcof.data.reading.table import Table
from fedcof.errors import OwnDataError, OwnDataWarning, SummaryError, first_of
from fedcof.labels import as_client_ids, as_labels, name_rows, near_twins

_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.0+)?")
_WRITTEN = re.compile(
    r"\s*[-+\u2212]?\s*[$\u20ac\u00a3]?\s*"
    r"(\d{1,3}([.,'\u2019\s_]\d{3})+|\d+)([.,]\d+)?([eEdD][-+]?\d+)?\s*[%$\u20ac\u00a3]?\s*"
)
"""Numbers as people write them: with a sign, a currency, marks between thousands, a unit."""
_MOSTLY = 0.5
"""A column of texts of which as many are numbers is one of numbers with faults."""
_PERHAPS_NONE = {"none", "?", "-", "--", ".", "missing"}
"""Labels that may be the name of a class, or stand for one that is missing."""
_EXACT = 2**53
"""Up to it, every integer has a float64 of its own."""


def samples_of(
    table: Table,
    *,
    features: str = "",
    label: str = "",
    client: str = "",
    labelled: bool = True,
    finite: bool = True,
) -> OwnData:
    """Return the samples of a table.

    Parameters
    ----------
    table : Table
    features, label, client : str
        Columns, as `find_roles` takes them.
    labelled : bool, default True
        Whether samples without labels are refused.
    finite : bool, default True
        Whether features that are not finite are refused.

    Raises
    ------
    OwnDataError
        If they are not well-formed: column and row are named.
    """
    where = table.name
    roles = find_roles(table, features=features, label=label, client=client)
    if labelled and not roles.labels:
        raise OwnDataError(_without_label(where, list(table.kinds)))
    if not (roles.features or roles.image):
        _refuse_without_features(table, roles)
    names = [*roles.labels, *([roles.client] if roles.client else [])]
    others = [name for name in roles.others if table.kinds[name] in ("number", "text")]
    columns = table.read([*names, *others, *roles.features])
    data: Data = (
        table.images(roles.image)
        if roles.image
        else features_of(where, {name: columns.pop(name) for name in roles.features}, finite=finite)
    )
    if len(data) == 0:
        raise OwnDataError(f"{where} has no rows: there is nothing to read")
    for name in (*names, *filter(says_which, others)):
        if columns[name].shape[:1] != (len(data),):
            raise OwnDataError(
                f"{where}: {len(data):,} rows of {roles.image or roles.features[0]!r}, but "
                f"{name!r} has {len(columns[name]) if columns[name].ndim else 1:,} entries; each "
                "row needs one"
            )
    labels, classes, names_of = _labels(table, roles, columns, len(data))
    clients = None
    if roles.client:
        clients = _clients(table, roles.client, columns[roles.client])
        _warn_of_twins(where, roles.client, clients)
    kept = {
        name: columns[name]
        for name in others
        if name not in names_of and columns[name].shape == (len(data),)
    }
    if clients is not None:
        kept[roles.client] = clients
    numbers = bool(roles.features) and table.kinds[roles.features[0]] == "number"
    if numbers and not features:
        for name in roles.others:
            if table.kinds[name] == "text" and not says_which(name):
                check_texts(where, name, columns[name])
        _say_unused(where, [name for name in roles.others if name not in names_of])
    return OwnData(
        data,
        labels,
        clients,
        Places.of_table(where, len(data)),
        kept,
        feature_names=roles.features if numbers else (),
        classes=classes,
    )


def features_of(
    where: str, columns: Mapping[str, NDArray[Any]], *, finite: bool = True
) -> NDArray[np.floating[Any]]:
    """Return features from one column of vectors, or from several of numbers.

    Raises
    ------
    OwnDataError
        If a value is no number, not finite or missing: row and column are named.
    """
    [*names] = columns
    if len(names) == 1:
        array = columns[names[0]]
        if array.ndim == 1 and array.dtype.kind in "OUST":
            array = _parsed_vectors(where, names[0], array)
        matrix = _as_floats(where, names[0], array)
        if matrix.ndim == 1:
            matrix = matrix[:, None]
        if matrix.ndim != 2 or matrix.shape[1] == 0:
            raise OwnDataError(
                f"{where}: {names[0]!r} has shape {matrix.shape}; expected a vector of one length "
                "in each row"
            )
    else:
        arrays = [_as_floats(where, name, columns[name]) for name in names]
        for name, array in zip(names, arrays, strict=True):
            if array.ndim != 1:
                raise OwnDataError(
                    f"{where}: the feature {name!r} has shape {array.shape}; where there are "
                    "several, each must be a number in each row"
                )
            if array.shape != arrays[0].shape:
                raise OwnDataError(
                    f"{where}: the feature {name!r} has {len(array):,} rows, but {names[0]!r} "
                    f"{len(arrays[0]):,}"
                )
        matrix = np.empty((len(arrays[0]), len(names)), np.result_type(*arrays))
        for position, array in enumerate(arrays):
            matrix[:, position] = array
    if finite:
        _check_finite(where, names, matrix)
    return matrix


def as_data(data: Any) -> Data:
    """Return features as a matrix of floats, whatever holds them, and images as they are.

    Raises
    ------
    OwnDataError
        If they are features that are not well-formed.
    """
    if are_features(data):
        return data
    if isinstance(data, list | tuple) and len(data) and _is_vector(data[0]):
        data = stacked("the data", "features", [np.asarray(vector) for vector in data])
    if not isinstance(data, list | tuple) and hasattr(data, "__array__"):
        array = np.asarray(data)
        if array.ndim == 2 and array.dtype.kind in "biufO":
            return features_of("the data", {"features": array}, finite=False)
    return data


def _is_vector(value: Any) -> bool:
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping):
        return False
    array = np.asarray(value) if hasattr(value, "__array__") or isinstance(value, list) else None
    return array is not None and array.ndim == 1 and array.dtype.kind in "biuf"


def _as_floats(where: str, name: str, array: NDArray[Any]) -> NDArray[np.floating[Any]]:
    """Return numbers as floats: integers and booleans as float64, floats as they are."""
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    if array.dtype.kind in "OUST":
        values = _as_numbers(where, name, array)
        return np.array(values, np.float64).reshape(array.shape)
    if array.dtype.kind not in "biuf":
        raise OwnDataError(f"{where}: {name!r} has dtype {array.dtype}; expected numbers")
    if array.dtype.kind in "iu" and array.size and _is_rounded(array.max(), array.min()):
        _as_numbers(where, name, array)
    return array.astype(np.float64)


def _is_rounded(*values: Any) -> bool:
    """Return whether among integers up to these some may have no float of their own."""
    return any(abs(int(value)) > _EXACT for value in values)


def _as_numbers(where: str, name: str, array: NDArray[Any]) -> list[float]:
    width = max(1, array.size // max(1, len(array)))
    return [
        _as_number(where, name, position // width, value)
        for position, value in enumerate(array.ravel().tolist())
    ]


def _as_number(where: str, name: str, row: int, value: Any) -> float:
    try:
        number = float(np.nan if value is None else value)
        if isinstance(value, int) and int(number) != value:
            raise OwnDataError(
                f"{where}: column {name!r}, row {row} is {value}, which no float is: is it an id? "
                "Leave it out, or save it rounded; --features names the columns of the features"
            )
        return number
    except (TypeError, ValueError) as error:
        if isinstance(error, OwnDataError):
            raise
        raise OwnDataError(
            f"{where}: column {name!r}, row {row} is {value!r}, which is no number; correct it, or "
            "name the columns of the features with --features"
        ) from None


def _parsed_vectors(where: str, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return vectors from texts such as "[0.5, 1]", as lists are written in CSV."""
    if not any(str(value).lstrip().startswith("[") for value in array[:1]):
        return array
    rows = []
    for row, value in enumerate(array.tolist()):
        text = str(value).strip()
        try:
            numbers = re.split(r"\s*,\s*|\s+", text.removeprefix("[").removesuffix("]").strip())
            rows.append(np.array(numbers, np.float64))
        except ValueError:
            raise OwnDataError(
                f"{where}: column {name!r}, row {row} is no list of numbers: {text[:40]!r}"
                + ("; it was cut short when it was saved" if "..." in text else "")
                + "; save vectors as Parquet or npz"
            ) from None
    return stacked(where, name, rows)


def stacked(where: str, name: str, rows: Sequence[NDArray[Any] | None]) -> NDArray[Any]:
    """Return vectors as a matrix.

    Raises
    ------
    OwnDataError
        If one is missing or of another length than the first: its row is named.
    """
    for row, vector in enumerate(rows):
        first = rows[0]
        if vector is None or first is None:
            raise OwnDataError(
                f"{where}: column {name!r}, row {row if first is not None else 0} "
                "is empty; expected a vector"
            )
        if vector.shape != first.shape:
            raise OwnDataError(
                f"{where}: column {name!r}, row {row} has {len(vector)} numbers, row 0 has "
                f"{len(first)}; all rows must be of one length"
            )
    return np.stack(rows) if rows else np.empty((0, 1))  # type: ignore[arg-type]


def _check_finite(where: str, names: Sequence[str], matrix: NDArray[Any]) -> None:
    # The sum is not finite if a value is not; only then is a mask of the matrix's size made.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(matrix.sum(dtype=np.float64)):
            return
    bad = ~np.isfinite(matrix)
    if not bad.any():
        return
    rows = np.flatnonzero(bad.any(axis=1))
    column = int(bad[rows[0]].argmax())
    value = matrix[rows[0], column]
    place = f"column {names[column]!r}" if len(names) > 1 else f"{names[0]!r}, position {column}"
    raise OwnDataError(
        f"{where}: {place}, row {rows[0]} is {'missing or NaN' if np.isnan(value) else value}; in "
        f"all, {len(rows):,} of {len(matrix):,} rows are not finite ({name_rows(rows)}). Fill "
        "them, or take these rows out"
    )


def _labels(
    table: Table, roles: Roles, columns: Mapping[str, NDArray[Any]], rows: int
) -> tuple[NDArray[Any] | None, tuple[str, ...], set[str]]:
    """Return the labels, the classes in the source's order, and the columns that name them."""
    if not roles.labels:
        return None, (), set()
    name, *others = roles.labels
    where = f"{table.name}, column {name!r}"
    labels = _checked(as_labels, _one_column(where, columns[name]), where)
    names = _distinct_names(table, name)
    named_by: set[str] = set()
    if names:
        labels = _by_names(where, labels, names)
    beside = [n for n in (*others, *roles.others) if n.casefold() in CLASS_NAMES]
    for other in beside:
        if other in columns and labels.dtype.kind != "U" and _names_each(labels, columns[other]):
            labels = _checked(as_labels, columns[other], f"{table.name}, column {other!r}")
            named_by.add(other)
    for other in others:
        if other not in named_by and not _names_each(labels, columns[other]):
            raise OwnDataError(
                f"{table.name}: {name!r} and {other!r} could both be the labels; name one: --label"
            )
    if len(labels) == rows:
        _warn_of_twins(table.name, name, labels)
        _warn_of_no_classes(where, labels)
    return labels, tuple(dict.fromkeys(names)), named_by | set(others)


def _clients(table: Table, name: str, values: NDArray[Any]) -> NDArray[np.str_]:
    """Return the clients' ids, by their names where the source has these."""
    where = f"{table.name}, column {name!r}"
    if names := _distinct_names(table, name):
        values = _by_names(where, _checked(as_labels, values, where), names)
    return np.asarray(_checked(as_client_ids, values, where))


def _distinct_names(table: Table, name: str) -> tuple[str, ...]:
    """Return the names that a column numbers, as all texts are read: in Unicode's form NFC."""
    return tuple(unicodedata.normalize("NFC", text) for text in table.class_names(name))


def _one_column(where: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return labels as 1-d: a column of them, or one-hot rows."""
    if array.ndim == 2 and array.shape[1] == 1:
        return array[:, 0]
    if array.ndim == 2 and array.dtype.kind in "biuf" and array.size:
        one_hot = ((array == 0) | (array == 1)).all(axis=1) & (array.sum(axis=1) == 1)
        if one_hot.all():
            return np.asarray(array.argmax(axis=1))
        row = int(one_hot.argmin())
        raise OwnDataError(
            f"{where} has shape {array.shape}, and row {row} is not one-hot; expected one label in "
            "each row"
        )
    return array


def _by_names(where: str, labels: NDArray[Any], names: tuple[str, ...]) -> NDArray[Any]:
    if labels.dtype.kind == "U":
        return labels
    bad = np.flatnonzero((labels < 0) | (labels >= len(names)))
    if len(bad):
        raise OwnDataError(
            f"{where}: {name_rows(bad)} has the label {labels[bad[0]]}, but the file names "
            f"{len(names)} classes, from 0; give each row its label, or take these rows out"
        )
    return np.asarray(np.array(names)[labels])


def _names_each(labels: NDArray[Any], names: NDArray[Any]) -> bool:
    """Return whether each class has one name, and each name one class."""
    if names.shape != labels.shape:
        return False
    pairs = set(zip(labels.tolist(), names.tolist(), strict=True))
    return len(pairs) == len({label for label, _ in pairs}) == len({name for _, name in pairs})


def _checked(
    convert: Callable[[ArrayLike], NDArray[Any]], values: NDArray[Any], where: str
) -> NDArray[Any]:
    try:
        return convert(values)
    except SummaryError as error:
        raise OwnDataError(f"{where}: {error.message}") from None


def numbers_in(texts: NDArray[Any]) -> NDArray[Any]:
    """Return texts as integers where all are written as such; 007 and mixtures stay texts.

    Examples
    --------
    >>> numbers_in(np.array(["1", "2.0"])), numbers_in(np.array(["01", "2"]))
    (array([1, 2]), array(['01', '2'], dtype='<U2'))
    """
    distinct = set(texts.tolist())
    if not all(isinstance(text, str) and _NUMBER.fullmatch(text) for text in distinct):
        return texts
    values = {text: int(text.partition(".")[0]) for text in distinct}
    if any(abs(value) >= 2**63 for value in values.values()):
        return texts
    return np.array([values[text] for text in texts.tolist()], dtype=np.int64)


def check_texts(where: str, name: str, texts: NDArray[Any]) -> None:
    """Refuse a column of texts that is one of numbers with faults in it.

    Raises
    ------
    OwnDataError
        With the first row that is no number.
    """
    values = [(row, str(text)) for row, text in enumerate(texts.tolist())]
    faults = [row for row, text in values if not _is_number(text)]
    blank = sum(not text.strip() for _, text in values)
    numbers = sum(_is_number(text) or bool(_WRITTEN.fullmatch(text)) for _, text in values)
    if faults and numbers >= max(1, _MOSTLY * (len(values) - blank)):
        again = texts[faults[0]] == name
        raise OwnDataError(
            f"{where}: column {name!r} holds numbers, but {name_rows(faults)} "
            f"{'is' if len(faults) == 1 else 'are'} {texts[faults[0]]!r}"
            + (" (is the line with the names there twice?)" if again else "")
            + ". Write numbers as 1234.5, or name the columns of the features with --features"
        )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return "_" not in str(value)  # 1_000 is a number to Python alone


def _warn_of_twins(where: str, column: str, values: NDArray[Any]) -> None:
    if values.dtype.kind != "U":
        return
    distinct = set(values.tolist())
    if padded := sorted(text for text in distinct if text != text.strip()):
        warnings.warn(
            OwnDataWarning(
                f"{where}: {padded[0]!r} in column {column!r} begins or ends with white space, as "
                f"do {len(padded)} of {len(distinct)} different ones; it is kept"
            ),
            stacklevel=2,
        )
    for twins in near_twins(distinct):
        warnings.warn(
            OwnDataWarning(
                f"{where}: {', '.join(map(repr, twins))} in column {column!r} are taken as "
                f"{len(twins)} different ones; write them alike if they are one"
            ),
            stacklevel=2,
        )


def _warn_of_no_classes(where: str, labels: NDArray[Any]) -> None:
    """Warn of texts that may be no names of classes: numbers with a fraction, words for none."""
    if labels.dtype.kind != "U":
        return
    distinct = sorted(set(labels.tolist()))
    if none := [text for text in distinct if text.strip().casefold() in _PERHAPS_NONE]:
        warnings.warn(
            OwnDataWarning(
                f"{where}: {none[0]!r} is taken as the name of a class; take these rows out if it "
                "stands for no label"
            ),
            stacklevel=2,
        )
    if len(distinct) > 1 and all(_is_number(text) and float(text) % 1 for text in distinct):
        warnings.warn(
            OwnDataWarning(
                f"{where}: {distinct[0]!r} and {len(distinct) - 1:,} other numbers with a fraction "
                "are taken as names of classes; a label is no measurement"
            ),
            stacklevel=2,
        )


def _refuse_without_features(table: Table, roles: Roles) -> None:
    """Say why none of the columns is a feature.

    Raises
    ------
    OwnDataError
    """
    others = [name for name in roles.others if table.kinds[name] == "text"]
    for name, texts in table.read(others).items():
        if not says_which(name):
            check_texts(table.name, name, texts)
    has = ", ".join(map(repr, roles.others[:12])) or "no other columns"
    raise OwnDataError(
        f"{table.name} has no features and no images; it has {has}. Name the columns of the "
        "features with --features"
    )


def _say_unused(where: str, names: Sequence[str]) -> None:
    if names:
        warnings.warn(
            OwnDataWarning(
                f"{where}: not used as features: {', '.join(map(repr, names))}; name columns with "
                "--features, --label and --client"
            ),
            stacklevel=2,
        )


def _without_label(where: str, names: Sequence[str]) -> str:
    text = f"{where} has no labels; it has {first_of(list(map(repr, names)), 12)}"
    text += ". Name the column of the labels with --label"
    if any(map(_is_number, names)) and not all(name.isdecimal() for name in names):
        text += "; or is the line with the names of the columns missing?"
    return text
