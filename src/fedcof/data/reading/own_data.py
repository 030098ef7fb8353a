"""What the reader returns: samples with their labels, their clients, and where each lies."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from fedcof.data.images import Rows
from fedcof.data.left_out import LeftOut
from fedcof.errors import OwnDataError, OwnDataWarning, first_of
from fedcof.labels import near_twins

COLUMNS = "list of columns"
"""What the fingerprint of the names of the features is called."""

Data = Any
"""(n, dim) float features, or a sequence of n images."""


class Places(Sequence[str]):
    """Where each row is: a file and the row in it, or a file that is one row.

    Parameters
    ----------
    files : sequence of str
    file : (n,) int array
        The file of each row.
    row : (n,) int array, optional
        The row in its file. Default: each file is one row.
    """

    def __init__(
        self,
        files: Sequence[str],
        file: NDArray[np.integer[Any]],
        row: NDArray[np.integer[Any]] | None = None,
    ) -> None:
        self._files, self._file, self._row = files, file, row

    @classmethod
    def of_table(cls, name: str, rows: int) -> Places:
        """Return the places of the rows of one file."""
        return cls([name], np.zeros(rows, np.int64), np.arange(rows))

    @classmethod
    def of_files(cls, files: Sequence[str]) -> Places:
        """Return the places of files that are one row each."""
        return cls(files, np.arange(len(files)))

    def subset(self, rows: NDArray[np.integer[Any]]) -> Places:
        """Return the places of some rows."""
        return Places(self._files, self._file[rows], None if self._row is None else self._row[rows])

    def __len__(self) -> int:
        return len(self._file)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Places: ...
    def __getitem__(self, index: int | slice) -> str | Places:
        if isinstance(index, slice):
            return self.subset(np.arange(len(self))[index])
        name = self._files[self._file[index]]
        return name if self._row is None else f"{name}, row {self._row[index]}"

    def __add__(self, other: Places) -> Places:
        row = None
        if self._row is not None and other._row is not None:
            row = np.concatenate([self._row, other._row])
        return Places(
            [*self._files, *other._files],
            np.concatenate([self._file, other._file + len(self._files)]),
            row,
        )


@dataclass(frozen=True, eq=False)
class OwnData:
    """Samples of the user's own.

    Parameters
    ----------
    data : (n, dim) float array, or sequence of n images
        Images are read when they are needed.
    labels : (n,) array of int64 or str, or None
        The user's own values, or the names of the classes where the source has them.
    clients : (n,) array of str, or None
        The client of each row, where the source says so.
    places : sequence of n str
        Where each row is: file, or file and row.
    columns : mapping of str to (n,) array
        What else is known of every row; texts are objects.
    left_out : LeftOut
        What of the source is not in here, and why.
    feature_names : tuple of str, default ()
        The columns that the features are made of, where they are several.
    classes : tuple of str, default ()
        All classes in the source's own order, where the source has one.
    """

    data: Data
    labels: NDArray[Any] | None
    clients: NDArray[np.str_] | None
    places: Places
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    left_out: LeftOut = field(default_factory=LeftOut)
    feature_names: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.places)

    @property
    def are_features(self) -> bool:
        """Whether the data are features, and not images."""
        return are_features(self.data)

    @property
    def origin(self) -> dict[str, str]:
        """What summaries and heads say of features in named columns: which, in which order."""
        if not self.feature_names:
            return {}
        names = json.dumps(self.feature_names).encode()
        return {COLUMNS: hashlib.sha256(names).hexdigest()[:16]}

    def subset(self, rows: NDArray[np.integer[Any]]) -> OwnData:
        """Return these rows, in this order; no image is read."""
        return replace(
            self,
            data=rows_of(self.data, rows),
            labels=None if self.labels is None else self.labels[rows],
            clients=None if self.clients is None else self.clients[rows],
            places=self.places.subset(rows),
            columns={name: column[rows] for name, column in self.columns.items()},
        )

    def by_client(self, name: str) -> Mapping[str, tuple[Data, Any]]:
        """Return data and labels of each client, read when they are asked for.

        Parameters
        ----------
        name : str
            The one client's, where the source names none.

        Warns
        -----
        OwnDataWarning
            If the source names none, and has columns that could be meant.
        """
        if self.clients is None:
            if self.columns:
                warnings.warn(
                    OwnDataWarning(
                        f"all {len(self):,} rows are of one client, {name!r}; not used: "
                        f"{', '.join(map(repr, self.columns))}. If one of these says whose a row "
                        "is, name it with --client"
                    ),
                    stacklevel=2,
                )
            return {name: (self.data, self.labels)}
        return self._named_clients

    @cached_property  # a worker of a simulation asks for them with every question
    def _named_clients(self) -> LazyClients:
        assert self.clients is not None
        return by_row(self.clients, lambda rows: (rows_of(self.data, rows), self._labels(rows)))

    def _labels(self, rows: NDArray[np.int64]) -> Any:
        return None if self.labels is None else self.labels[rows]

    def aligned_with(self, first: OwnData) -> OwnData:
        """Return the data with its features in the order of others, by their names.

        Raises
        ------
        OwnDataError
            If one has features that the other lacks, or they are not of one kind or length.
        """
        here, there = self._file, first._file
        if self.are_features != first.are_features:
            kinds = ["features" if data.are_features else "images" for data in (self, first)]
            raise OwnDataError(f"{here} has {kinds[0]}, but {there} has {kinds[1]}")
        if self.feature_names != first.feature_names:
            lacks = [name for name in first.feature_names if name not in self.feature_names]
            others = [name for name in self.feature_names if name not in first.feature_names]
            if lacks or others:
                raise OwnDataError(
                    f"{here} has other features than {there}: "
                    + " and ".join(
                        f"{words} {first_of(list(map(repr, names)), 5)}"
                        for words, names in (("it lacks", lacks), ("only it has", others))
                        if names
                    )
                )
            order = [self.feature_names.index(name) for name in first.feature_names]
            return replace(self, data=self.data[:, order], feature_names=first.feature_names)
        if self.are_features and self.data.shape[1] != first.data.shape[1]:
            raise OwnDataError(
                f"{here} has features of length {self.data.shape[1]}, but {there} of "
                f"{first.data.shape[1]}; all must come from the same model"
            )
        return self

    @property
    def _file(self) -> str:
        return self.places[0].rpartition(", row ")[0] or self.places[0]


def joined(parts: Sequence[OwnData]) -> OwnData:
    """Return the rows of several files, one file after the other.

    Raises
    ------
    OwnDataError
        If they have other features, labels of another type, or only some have labels or clients.
    """
    first, *others = parts
    if not others:
        return first
    parts = [first, *(part.aligned_with(first) for part in others)]
    for name in ("labels", "clients"):
        having = [part for part in parts if getattr(part, name) is not None]
        lacking = [part for part in parts if getattr(part, name) is None]
        if having and lacking:
            raise OwnDataError(f"{lacking[0]._file} has no {name}, but {having[0]._file} has")
    check_label_types(parts)
    for part in parts:
        if part.classes != first.classes:
            raise OwnDataError(f"{part._file} names other classes than {first._file}")
    places = first.places
    for part in parts[1:]:
        places = places + part.places
    names = [name for name in first.columns if all(name in part.columns for part in parts)]
    warn_of_twins_among(parts)
    return replace(
        first,
        data=_joined_data([part.data for part in parts]),
        labels=None if first.labels is None else np.concatenate([p.labels for p in parts]),
        clients=None if first.clients is None else np.concatenate([p.clients for p in parts]),
        places=places,
        columns={name: np.concatenate([part.columns[name] for part in parts]) for name in names},
        left_out=sum((part.left_out for part in parts), LeftOut()),
    )


def warn_of_twins_among(parts: Sequence[OwnData]) -> None:
    """Warn of labels or clients that are near twins, but not in one file: there it was said."""
    for what, columns in (
        ("labels", [part.labels for part in parts]),
        ("clients", [part.clients for part in parts]),
    ):
        found = [
            set(values.tolist())
            for values in columns
            if values is not None and values.dtype.kind == "U"
        ]
        for twins in near_twins(set().union(*found)):
            if not any(set(twins) <= values for values in found):
                warnings.warn(
                    OwnDataWarning(
                        f"the {what} {', '.join(map(repr, twins))} of different files are taken as "
                        f"{len(twins)} different ones; write them alike if they are one"
                    ),
                    stacklevel=2,
                )


def check_label_types(parts: Sequence[OwnData]) -> None:
    """Check that labels are integers in all files, or texts in all.

    Raises
    ------
    OwnDataError
        If they are not: NumPy would make texts of the integers.
    """
    given = [(part, part.labels) for part in parts if part.labels is not None]
    for part, labels in given:
        first, expected = given[0]
        kinds = ["texts" if of.dtype.kind == "U" else "integers" for of in (labels, expected)]
        if kinds[0] != kinds[1]:
            raise OwnDataError(
                f"the labels of {part._file} are {kinds[0]}, such as {labels[0].item()!r}, but "
                f"{kinds[1]} in {first._file}, such as {expected[0].item()!r}; save them as texts "
                "in all files"
            )


def _joined_data(parts: Sequence[Data]) -> Data:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    if all(hasattr(part, "joined") for part in parts):
        return parts[0].joined(parts)
    return [image for part in parts for image in part]


def are_features(data: Data) -> bool:
    """Return whether data are features, and not images."""
    return isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind == "f"


def rows_of(data: Data, rows: NDArray[Any]) -> Data:
    """Return some rows of features or images; no image is read."""
    return data[rows] if isinstance(data, np.ndarray) else Rows(data, rows)


def by_row(clients: NDArray[Any], read: Callable[[Any], tuple[Data, Any]]) -> LazyClients:
    """Return the clients of a table from the client of every row, and what reads some rows."""
    order = np.argsort(clients, kind="stable")
    names, starts = np.unique(clients[order], return_index=True)
    return LazyClients(dict(zip(map(str, names), np.split(order, starts[1:]), strict=True)), read)


class LazyClients(Mapping[str, tuple[Data, Any]]):
    """Clients whose data is read when it is asked for.

    Parameters
    ----------
    places : mapping of str to object
        Where each client's data is: the rows of a table, a key of another mapping.
    read : callable
        Returns the data and the labels in a place.
    """

    def __init__(self, places: Mapping[str, Any], read: Callable[[Any], tuple[Data, Any]]) -> None:
        self._places, self._read = places, read

    def __getitem__(self, client_id: str) -> tuple[Data, Any]:
        return self._read(self._places[client_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def subset(self, client_ids: Iterable[str]) -> LazyClients:
        """Return some of the clients; nothing is read."""
        return LazyClients({name: self._places[name] for name in client_ids}, self._read)

    def sizes(self) -> dict[str, int]:
        """Return the samples of each client whose place is rows of a table; nothing is read."""
        return {
            client_id: len(place)
            for client_id, place in self._places.items()
            if isinstance(place, np.ndarray)
        }
