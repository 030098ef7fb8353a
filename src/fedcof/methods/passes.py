"""A method's solution in bounded memory: passes over summaries, each as partial, add and finish.

A server with a million clients cannot hold what they sent. What a method needs of it is a sum, or
can be merged like one. So a pass over the summaries is three functions:

- ``partial(parts)`` makes a small result of some summaries,
- ``add(first, second)`` makes one of two, whoever computed them,
- ``finish(total)`` makes of the result of all the next pass, or what `Method.fit` takes.

Partial results are plain arrays: a few of shape (classes, dim) and (dim, dim). Who computes them,
and where, is not known here; see `fedcof.scale`. A method says which pass comes first by
`Method.streamed`.

Scatter is summed in float64 about zero, and moved to the class means in the end::

    sum w (x - mu)(x - mu)^T = sum w x x^T - W mu mu^T

So parts need not agree on their means. Where the means are so large beside the scatter that more
than three of the 16 digits would be lost, another pass sums about the class means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import SummaryError
from fedcof.numerics import CentredScatter, sum_by_group
from fedcof.summaries import Summary
from fedcof.summaries.class_sums import ClassSums

P = TypeVar("P")

_LARGEST_CORRECTION = 1000.0
"""If moving the scatter to the means subtracts more than 1000 times what is left, three digits are
lost of 16: the scatter is then summed again, about the means."""


ROBUST = "with robust, medians over the means of all clients say what a mean counts"
"""Why a robust method needs all summaries: a median is no sum over them."""


class Rows(Protocol):
    """Whose rows there are, of which class and of how many samples; every summary says it."""

    @property
    def client_ids(self) -> tuple[str, ...]:
        """The clients, one after the other."""

    @property
    def rows_per_client(self) -> NDArray[np.int64]:
        """How many rows each has."""

    @property
    def classes(self) -> NDArray[Any]:
        """The class of every row."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """The samples behind every row."""


class Pass(ABC, Generic[P]):
    """One pass over all summaries; it must be possible to send it, and its results, elsewhere."""

    counts_alone: ClassVar[bool] = False
    """Whether it is content with `Rows`: then no statistic is read."""

    @abstractmethod
    def partial(self, parts: Sequence[Any]) -> P:
        """Return the result of some summaries, at least one; they fit into memory together."""

    @abstractmethod
    def add(self, first: P, second: P) -> P:
        """Return the result of the summaries of both."""

    @abstractmethod
    def finish(self, total: P) -> object:
        """Return the next pass; or, from the last one, what `Method.fit` takes."""


@dataclass(frozen=True, eq=False)
class ClassTotals:
    """How many rows and samples every class has.

    Parameters
    ----------
    classes : ndarray, shape (classes,)
        The labels in ascending order.
    rows : ndarray of int64, shape (classes,)
        K_c, the rows that came.
    counts : ndarray of int64, shape (classes,)
        N_c, the samples behind them.
    """

    classes: NDArray[Any]
    rows: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, labels: NDArray[Any], counts: NDArray[np.int64]) -> ClassTotals:
        """Count rows of these labels."""
        classes, class_index = np.unique(labels, return_inverse=True)
        return cls(classes, np.bincount(class_index), _sums(counts, class_index, len(classes)))

    def __add__(self, other: ClassTotals) -> ClassTotals:
        classes, (here, there) = aligned(self.classes, other.classes)
        rows, counts = np.zeros((2, len(classes)), dtype=np.int64)
        for places, part in ((here, self), (there, other)):
            rows[places] += part.rows
            counts[places] += part.counts
        return ClassTotals(classes, rows, counts)

    def places(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Return the place of every label among the classes."""
        return np.searchsorted(self.classes, labels)

    def groups(self, labels: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
        """Return the place of every label, and how many classes there are."""
        return self.places(labels), len(self.classes)


def aligned(
    first: NDArray[Any], second: NDArray[Any]
) -> tuple[NDArray[Any], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return the classes of two parts together, and the places of both among them."""
    if np.array_equal(first, second):
        same = np.arange(len(first))
        return first, (same, same)
    classes = np.union1d(first, second)
    return classes, (np.searchsorted(classes, first), np.searchsorted(classes, second))


def _sums(
    values: NDArray[np.int64], group_index: NDArray[np.int64], groups: int
) -> NDArray[np.int64]:
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, group_index, values)
    return sums


class Census(Pass[ClassTotals]):
    """The first pass of a method whose weights depend on how many rows each class has.

    Parameters
    ----------
    then : callable
        Returns the next pass from the totals of all classes.
    """

    counts_alone = True

    def __init__(self, then: Callable[[ClassTotals], Pass[Any]]) -> None:
        self.then = then

    def partial(self, parts: Sequence[Rows]) -> ClassTotals:
        """Count the rows and samples of every class."""
        labels = np.concatenate([part.classes for part in parts])
        return ClassTotals.of(labels, np.concatenate([part.counts for part in parts]))

    def add(self, first: ClassTotals, second: ClassTotals) -> ClassTotals:
        """Add them."""
        return first + second

    def finish(self, total: ClassTotals) -> Pass[Any]:
        """Return the pass that the totals make possible."""
        return self.then(total)


@dataclass(frozen=True, eq=False)
class ClassScatter:
    """The weighted scatter of rows, summed about points that are the same in all parts; adds up.

    Parameters
    ----------
    totals : ClassTotals
    weights : ndarray of float64, shape (classes,)
        The sum of the weights of the rows, W.
    sums : ndarray of float64, shape (classes, dim)
        The sum of ``w (x - p)``, where p is the point of the row's class.
    products : ndarray of float64, shape (dim, dim)
        The sum of ``w (x - p)(x - p)^T``. Only the upper triangle is filled.
    points : ClassPoints, optional
        The point of every class; zero by default.
    """

    totals: ClassTotals
    weights: NDArray[np.float64]
    sums: NDArray[np.float64]
    products: NDArray[np.float64]
    points: ClassPoints | None = None

    @classmethod
    def of(
        cls,
        arrays: Sequence[NDArray[np.floating[Any]]],
        labels: NDArray[Any],
        counts: NDArray[np.int64],
        weight_of: ClassWeights | None = None,
        points: ClassPoints | None = None,
    ) -> ClassScatter:
        """Sum over rows that count for their samples, times the weight of their class."""
        totals = ClassTotals.of(labels, counts)
        class_index, classes = totals.groups(labels)
        weights = counts.astype(np.float64)
        if weight_of is not None:
            weights *= weight_of(totals.classes)[class_index]
        about = np.zeros((classes, arrays[0].shape[1]))
        if points is not None:
            about = points(totals.classes)
        with np.errstate(over="ignore", invalid="ignore"):  # told where the scatter is asked for
            part = CentredScatter.of(arrays, weights, class_index, about)
        return cls(totals, part.weights, part.sums, part.scatter, points)

    def __add__(self, other: ClassScatter) -> ClassScatter:
        totals = self.totals + other.totals
        weights, sums = np.zeros(len(totals.classes)), np.zeros((len(totals.classes), self.dim))
        for part in (self, other):
            places = totals.places(part.totals.classes)
            weights[places] += part.weights
            sums[places] += part.sums
        return ClassScatter(totals, weights, sums, self.products + other.products, self.points)

    @property
    def dim(self) -> int:
        """The length of a row."""
        return int(self.sums.shape[1])

    @cached_property
    def _centred(self) -> CentredScatter:
        centres = np.zeros_like(self.sums)
        if self.points is not None:
            centres = self.points(self.totals.classes)
        return CentredScatter(centres, self.weights, self.sums, self.products)

    @property
    def means(self) -> NDArray[np.float64]:
        """The weighted mean of every class, shape (classes, dim)."""
        return self._centred.means

    @cached_property
    def scatter(self) -> NDArray[np.float64]:
        """The sum of ``w (x - mu)(x - mu)^T`` about the means, shape (dim, dim).

        Raises
        ------
        SummaryError
            If it is not finite.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            scatter = self._centred.about_means()
        if not np.isfinite(scatter).all():
            raise SummaryError("overflow", "the scatter overflows: a mean is too large")
        return scatter

    @property
    def is_exact(self) -> bool:
        """Whether moving the scatter to the means costs no more than three digits of float64."""
        return self._centred.correction <= _LARGEST_CORRECTION * float(np.trace(self.scatter))


@dataclass(frozen=True, eq=False)
class ClassPoints:
    """A point for every class, by its label; shape (classes, dim)."""

    classes: NDArray[Any]
    points: NDArray[np.float64]

    def __call__(self, classes: NDArray[Any]) -> NDArray[np.float64]:
        """Return the points of some of the classes."""
        return np.asarray(self.points[np.searchsorted(self.classes, classes)])


@dataclass(frozen=True, eq=False)
class ClassWeights:
    """A positive weight for every class, by its label."""

    classes: NDArray[Any]
    weights: NDArray[np.float64]

    def __call__(self, classes: NDArray[Any]) -> NDArray[np.float64]:
        """Return the weights of some of the classes."""
        return np.asarray(self.weights[np.searchsorted(self.classes, classes)])


@dataclass(frozen=True, eq=False)
class ScatterPass(Pass[ClassScatter]):
    """Class means, and the scatter of the clients' means about them.

    Parameters
    ----------
    then : callable
        Returns what `Method.fit` takes, from the scatter of all.
    weights : ClassWeights, optional
        How often the scatter of every class is taken; once by default.
    points : ClassPoints, optional
        What the scatter is summed about; zero by default.
    """

    then: Callable[[ClassScatter], object]
    weights: ClassWeights | None = None
    points: ClassPoints | None = None

    def partial(self, parts: Sequence[Any]) -> ClassScatter:
        """Sum over the means of these summaries."""
        return ClassScatter.of(
            [part.means for part in parts],
            np.concatenate([part.classes for part in parts]),
            np.concatenate([part.counts for part in parts]),
            self.weights,
            self.points,
        )

    def add(self, first: ClassScatter, second: ClassScatter) -> ClassScatter:
        """Add them."""
        return first + second

    def finish(self, total: ClassScatter) -> object:
        """Return what the head is made of; a pass about the class means where that is needed."""
        if self.points is None and not total.is_exact:
            return replace(self, points=ClassPoints(total.totals.classes, total.means))
        return self.then(total)


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums of every class, and other arrays that add up.

    Parameters
    ----------
    totals : ClassTotals
    sums : ndarray of float64, shape (classes, dim)
    others : mapping of str to ndarray of float64
        By their names in the summary.
    """

    totals: ClassTotals
    sums: NDArray[np.float64]
    others: Mapping[str, NDArray[np.float64]]

    def __add__(self, other: Sums) -> Sums:
        totals = self.totals + other.totals
        sums = np.zeros((len(totals.classes), self.sums.shape[1]))
        for part in (self, other):
            sums[totals.places(part.totals.classes)] += part.sums
        others = {name: array + other.others[name] for name, array in self.others.items()}
        return Sums(totals, sums, others)


@dataclass(frozen=True, eq=False)
class SumsPass(Pass[Sums]):
    """The one pass of a method that needs nothing but sums over samples.

    Parameters
    ----------
    summary_type : type of ClassSums
        The statistic that is added up.
    then : callable
        Returns what `Method.fit` takes, from a list with the sum of all summaries.
    of : callable, optional
        Returns the statistic of a summary that has it in another form.
    """

    summary_type: type[Summary]
    then: Callable[[Sequence[Any]], object]
    of: Callable[[Any], ClassSums] | None = None

    def partial(self, parts: Sequence[Any]) -> Sums:
        """Add summaries up."""
        if self.of is not None:
            parts = [self.of(part) for part in parts]
        labels = np.concatenate([part.classes for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        totals = ClassTotals.of(labels, counts)
        sums = sum_by_group([part.sums for part in parts], *totals.groups(labels))
        others: dict[str, NDArray[np.float64]] = {}
        for name in parts[0].others():
            others[name] = np.zeros(getattr(parts[0], name).shape)
            for part in parts:
                others[name] += getattr(part, name)
        return Sums(totals, sums, others)

    def add(self, first: Sums, second: Sums) -> Sums:
        """Add them."""
        return first + second

    def finish(self, total: Sums) -> object:
        """Return what the method makes of the sum of all summaries."""
        fields: dict[str, Any] = {"sums": total.sums, **total.others}
        totals = total.totals
        return self.then(
            [self.summary_type(classes=totals.classes, counts=totals.counts, **fields)]
        )


@dataclass(frozen=True, eq=False)
class MeansPass(Pass[Sums]):
    """The one pass of a method that needs class means and no scatter.

    Parameters
    ----------
    then : callable
        Returns what `Method.fit` takes, from the classes, their counts and their means.
    """

    then: Callable[[NDArray[Any], NDArray[np.int64], NDArray[np.float64]], object]

    def partial(self, parts: Sequence[Any]) -> Sums:
        """Add means up, each as often as it has samples."""
        labels = np.concatenate([part.classes for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        totals = ClassTotals.of(labels, counts)
        means = [part.means for part in parts]
        return Sums(totals, sum_by_group(means, *totals.groups(labels), counts), {})

    def add(self, first: Sums, second: Sums) -> Sums:
        """Add them."""
        return first + second

    def finish(self, total: Sums) -> object:
        """Return what the method makes of the class means."""
        classes, counts = total.totals.classes, total.totals.counts
        return self.then(classes, counts, total.sums / counts[:, None])


class Together(Pass[tuple[Any, ...]]):
    """Several passes in one, so that the summaries are read once.

    Parameters
    ----------
    passes : sequence of Pass
        The last passes of what each is for.
    then : callable
        Returns what `Method.fit` takes, from what each of them finishes with.
    """

    def __init__(self, passes: Sequence[Pass[Any]], then: Callable[..., object]) -> None:
        self.passes = passes
        self.then = then

    def partial(self, parts: Sequence[Any]) -> tuple[Any, ...]:
        """Return the result of each."""
        return tuple(one.partial(parts) for one in self.passes)

    def add(self, first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
        """Add the results of each."""
        return tuple(one.add(a, b) for one, a, b in zip(self.passes, first, second, strict=True))

    def finish(self, total: tuple[Any, ...]) -> object:
        """Return what is made of all results together; all once more, where one needs it."""
        found = [one.finish(result) for one, result in zip(self.passes, total, strict=True)]
        if any(isinstance(result, Pass) for result in found):
            pairs = zip(self.passes, found, strict=True)
            again = [result if isinstance(result, Pass) else one for one, result in pairs]
            return Together(again, self.then)
        return self.then(*found)


def same(value: Any) -> Any:
    """Return a value as it is: what a pass within `Together` finishes with."""
    return value


# Single rows, by their place among those of all clients


@dataclass(frozen=True, eq=False)
class Roll:
    """Who has rows of which class: what `RollCall` finds.

    Parameters
    ----------
    totals : ClassTotals
    client_ids : list of str
    rows_per_client : ndarray of int64, shape (clients,)
    class_index : ndarray of int32, shape (rows,)
        The class of every row as an index into those of the totals, client by client.
    counts : ndarray of int64, shape (rows,)
        The samples behind every row.
    """

    totals: ClassTotals
    client_ids: list[str]
    rows_per_client: NDArray[np.int64]
    class_index: NDArray[np.int32]
    counts: NDArray[np.int64]

    def __add__(self, other: Roll) -> Roll:
        totals = self.totals + other.totals
        return Roll(
            totals,
            self.client_ids + other.client_ids,
            np.concatenate([self.rows_per_client, other.rows_per_client]),
            np.concatenate(
                [
                    totals.places(part.totals.classes).astype(np.int32)[part.class_index]
                    for part in (self, other)
                ]
            ),
            np.concatenate([self.counts, other.counts]),
        )

    def in_order(self) -> Roll:
        """Return the same with the clients in the order of their ids, as they are in memory."""
        order = sorted(range(len(self.client_ids)), key=self.client_ids.__getitem__)
        starts = np.cumsum(self.rows_per_client) - self.rows_per_client
        rows = self.rows_per_client[order]
        first = np.cumsum(rows) - rows
        taken = np.repeat(starts[order] - first, rows) + np.arange(int(rows.sum()))
        ids = [self.client_ids[place] for place in order]
        return Roll(self.totals, ids, rows, self.class_index[taken], self.counts[taken])

    def wanted(self, rows: NDArray[np.int64]) -> Wanted:
        """Return some of the rows, by their places, as who has them."""
        stops = np.cumsum(self.rows_per_client)
        clients = np.searchsorted(stops, rows, side="right")
        within = rows - (stops - self.rows_per_client)[clients]
        wanted: dict[str, list[tuple[int, int, int]]] = {}
        for row, client, place in zip(
            rows.tolist(), clients.tolist(), within.tolist(), strict=True
        ):
            wanted.setdefault(self.client_ids[client], []).append((row, client, place))
        return wanted


Wanted = Mapping[str, Sequence[tuple[int, int, int]]]
"""Of some clients, by their ids: rows as their place among all, the client's place among all
clients, and the row's place among those of the client."""


class RollCall(Pass[Roll]):
    """The first pass of a method that picks single rows, or needs the clients in their order.

    Parameters
    ----------
    then : callable
        Returns the next pass from the roll, the clients in the order of their ids.
    """

    counts_alone = True

    def __init__(self, then: Callable[[Roll], Pass[Any]]) -> None:
        self.then = then

    def partial(self, parts: Sequence[Rows]) -> Roll:
        """Note whose rows are of which class."""
        labels = np.concatenate([part.classes for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        totals = ClassTotals.of(labels, counts)
        return Roll(
            totals,
            [name for part in parts for name in part.client_ids],
            np.concatenate([part.rows_per_client for part in parts]),
            totals.places(labels).astype(np.int32),
            counts,
        )

    def add(self, first: Roll, second: Roll) -> Roll:
        """Put one behind the other."""
        return first + second

    def finish(self, total: Roll) -> Pass[Any]:
        """Return the pass that the roll makes possible."""
        return self.then(total.in_order())


@dataclass(frozen=True, eq=False)
class PickedRows:
    """Some rows.

    Parameters
    ----------
    rows, clients : ndarray of int64, shape (picked,)
        The place of each among all rows, and of its client among all clients.
    counts : ndarray of int64, shape (picked,)
    labels : ndarray, shape (picked,)
    arrays : mapping of str to ndarray of float, each of shape (picked, ...)
        What was kept of the statistic.
    """

    rows: NDArray[np.int64]
    clients: NDArray[np.int64]
    counts: NDArray[np.int64]
    labels: NDArray[Any]
    arrays: Mapping[str, NDArray[np.floating[Any]]]

    def __add__(self, other: PickedRows) -> PickedRows:
        return PickedRows(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.clients, other.clients]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.labels, other.labels]),
            {n: np.concatenate([array, other.arrays[n]]) for n, array in self.arrays.items()},
        )

    def in_order(self) -> PickedRows:
        """Return the same in the order of the rows."""
        order = np.argsort(self.rows)
        return PickedRows(
            self.rows[order],
            self.clients[order],
            self.counts[order],
            self.labels[order],
            {name: array[order] for name, array in self.arrays.items()},
        )


@dataclass(frozen=True, eq=False)
class PickRows(Pass[PickedRows | None]):
    """Keep single rows.

    Parameters
    ----------
    wanted : Wanted
    kept : tuple of str, default ("means",)
        The arrays of the statistic that are kept of them; each has a row a class.
    then : callable, optional
        Returns what `Method.fit` takes; the rows themselves by default.
    """

    wanted: Wanted
    kept: tuple[str, ...] = ("means",)
    then: Callable[[PickedRows | None], object] = same

    def partial(self, parts: Sequence[Any]) -> PickedRows | None:
        """Return those of these summaries that are wanted, None if there are none."""
        found = []
        for part in parts:
            for client_id, rows in part.rows_by_client():
                for row, client, within in self.wanted.get(client_id, ()):
                    found.append((row, client, part, rows.start + within))
        if not found:
            return None
        return PickedRows(
            rows=np.array([row for row, _, _, _ in found]),
            clients=np.array([client for _, client, _, _ in found]),
            counts=np.array([part.counts[place] for _, _, part, place in found]),
            labels=np.array([part.classes[place] for _, _, part, place in found]),
            arrays={
                name: np.stack([getattr(part, name)[place] for _, _, part, place in found])
                for name in self.kept
            },
        )

    def add(self, first: PickedRows | None, second: PickedRows | None) -> PickedRows | None:
        """Put one behind the other."""
        return second if first is None else first if second is None else first + second

    def finish(self, total: PickedRows | None) -> object:
        """Return them in their order."""
        return self.then(None if total is None else total.in_order())
