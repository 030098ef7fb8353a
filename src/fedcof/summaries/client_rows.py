"""A statistic of which the server needs every client's rows: merging keeps them all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import SummaryError
from fedcof.summaries.base import Summary


@dataclass(frozen=True, eq=False, kw_only=True)
class ClientRows(Summary):
    """Rows in the order of the clients, none merged.

    A statistic with an array that has no row a class has to say how it is merged.
    """

    checked_by_row: ClassVar[bool] = False
    """Whether each client's rows are sound where the rows of several together are: then thousands
    of clients are checked at once. Every array of the statistic has a row a class."""

    def _check(self) -> None:
        super()._check()
        if self.rows_per_client.sum() != len(self.counts):
            raise SummaryError(
                "shape",
                f"rows_per_client must say which of the {len(self.counts)} rows are whose; it says "
                f"it of {self.rows_per_client.sum()}",
            )

    def rows_by_client(self) -> list[tuple[str, slice]]:
        """Return every client with its rows."""
        stops = np.cumsum(self.rows_per_client).tolist()
        return [
            (client_id, slice(start, stop))
            for client_id, start, stop in zip(self.client_ids, [0, *stops[:-1]], stops, strict=True)
        ]

    def apart(self) -> list[Self]:
        """Return the summaries of the clients behind this one."""
        if len(self.client_ids) == 1:
            return [self]
        if self.checked_by_row:
            return self._parts()
        return [
            type(self)(
                client_ids=(client_id,),
                origin=self.origin,
                **{name: getattr(self, name)[rows] for name in self._row_fields()},
                **others,
            )
            for (client_id, rows), others in zip(
                self.rows_by_client(), self._others_apart(), strict=True
            )
        ]

    def _parts(self) -> list[Self]:
        """Return views of every client's rows, which have been checked as rows of all."""
        stops = np.cumsum(self.rows_per_client)
        starts = stops - self.rows_per_client
        arrays = [(name, getattr(self, name)) for name in self._row_fields()]
        numbers = self.formula_bytes // self.rows_sent
        parts = []
        for client_id, start, stop, total in zip(
            self.client_ids,
            starts.tolist(),
            stops.tolist(),
            np.add.reduceat(self.counts, starts).tolist(),
            strict=True,
        ):
            part = object.__new__(type(self))
            part.__dict__.update(
                {name: array[start:stop] for name, array in arrays},
                client_ids=(client_id,),
                rows_per_client=one_of(stop - start),
                origin=self.origin,
                total=total,
                rows_sent=stop - start,
                formula_bytes=numbers * (stop - start),
            )
            parts.append(part)
        return parts

    def _row_fields(self) -> list[str]:
        return ["classes", "counts", *self._by_row()]

    def _others_apart(self) -> Iterable[dict[str, Any]]:
        """Return the fields of every client that have no row a class."""
        return [{}] * len(self.client_ids)

    def _without(self, client_id: str) -> Self:
        return type(self)(**self._rows_without(client_id))

    def _rows_without(self, client_id: str) -> dict[str, Any]:
        """Return the fields of all rows but those of one client."""
        left = np.repeat([name != client_id for name in self.client_ids], self.rows_per_client)
        arrays = {name: getattr(self, name)[left] for name in ("counts", *self._by_row())}
        # NumPy gives all texts the length of the longest, which may have been this client's.
        classes = np.array(self.classes[left].tolist())
        return {**self._clients_without(client_id), "classes": classes, **arrays}

    @classmethod
    def _by_row(cls) -> list[str]:
        """Return the names of the arrays of the statistic that have a row a class."""
        return [name for name, axes in cls.axes.items() if axes[0] == "rows"]

    @classmethod
    def _merge(cls, parts: Sequence[Self]) -> Self:
        return cls(**cls._merged_rows(parts))

    @classmethod
    def _merged_rows(cls, parts: Sequence[Self]) -> dict[str, Any]:
        """Return the fields of all rows, in the order of the clients."""
        pieces = [
            (client_id, part, rows) for part in parts for client_id, rows in part.rows_by_client()
        ]
        pieces.sort(key=lambda piece: piece[0])
        return {
            "client_ids": tuple(client_id for client_id, _, _ in pieces),
            "rows_per_client": np.array([rows.stop - rows.start for _, _, rows in pieces]),
        } | {
            name: np.concatenate([getattr(part, name)[rows] for _, part, rows in pieces])
            for name in ("classes", "counts", *cls._by_row())
        }


@lru_cache(maxsize=1024)
def one_of(rows: int) -> NDArray[np.int64]:
    """Return how many rows one client has, as an array that is shared."""
    array = np.array([rows])
    array.flags.writeable = False
    return array


def joining(classes: NDArray[Any], counts: NDArray[np.int64], least: int) -> NDArray[np.int64]:
    """Return into which set every row goes, so that each set has enough samples of one class.

    Rows with enough stay as they are. Smaller ones of a class are joined in their order until they
    have enough; what is left over at the end goes to the last set of the class.

    Parameters
    ----------
    classes : ndarray of int or str, shape (rows,)
        Equal classes stand together.
    counts : ndarray of int64, shape (rows,)
    least : int
        The samples of a set, unless its class has fewer in all.

    Returns
    -------
    ndarray of int64, shape (rows,)
        The number of every row's set, from 0 and without a gap; those of a class are neighbours.

    Examples
    --------
    >>> joining(np.array([0, 0, 0, 0, 1]), np.array([2, 9, 3, 1, 2]), 4)
    array([1, 0, 1, 1, 2])
    """
    sets = np.empty(len(classes), dtype=np.int64)
    total = 0
    for label in dict.fromkeys(classes.tolist()):
        first, filling, filled = total, [], 0
        for row in np.flatnonzero(classes == label).tolist():
            if counts[row] >= least:
                sets[row], total = total, total + 1
                continue
            filling.append(row)
            filled += counts[row]
            if filled >= least:
                sets[filling], total = total, total + 1
                filling, filled = [], 0
        if filling:
            total += total == first  # the class has no set yet
            sets[filling] = total - 1
    return sets
