"""A method's solution in bounded memory: passes over summaries, each as partial, add and finish.

A server with a million clients cannot hold what they sent. What a method needs of it is a sum, or
can be merged like one. So a pass over the summaries is three functions:

- ``partial(parts)`` makes a small result of some summaries,
- ``add(first, second)`` makes one of two, whoever computed them,
- ``finish(total)`` makes of the result of all the next pass, or what `Method.fit` takes.

Partial results are plain arrays: a few of shape (classes, dim) and (dim, dim). Who computes them,
and where, is not known here; see `fedcof.scale`. A method says which pass comes first by
`Method.streamed`.

Scatter is summed in float64 about the class means of the summaries at hand. Two scatters about
different means are merged by the update of Chan, Golub and LeVeque (1983)::

    S = S_a + S_b + W_a W_b / (W_a + W_b) (mu_a - mu_b)(mu_a - mu_b)^T
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcof.numerics import outer_products, scatter_about_means, sum_by_group
from fedcof.summaries import Summary
from fedcof.summaries.class_sums import ClassSums

P = TypeVar("P")


ROBUST = "with robust, what a mean counts depends on all others"
"""Why a robust method needs all summaries."""


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
    """The weighted scatter of rows about the means of their classes; two are merged by Chan.

    Parameters
    ----------
    totals : ClassTotals
    weights : ndarray of float64, shape (classes,)
        The sum of the weights of the rows, W.
    means : ndarray of float64, shape (classes, dim)
        Their weighted mean.
    scatter : ndarray of float64, shape (dim, dim)
        The sum of ``w (x - mu)(x - mu)^T``.
    """

    totals: ClassTotals
    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    scatter: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        arrays: Sequence[NDArray[np.floating[Any]]],
        labels: NDArray[Any],
        counts: NDArray[np.int64],
        weight_of: ClassWeights | None = None,
    ) -> ClassScatter:
        """Sum over rows that count for their samples, times the weight of their class."""
        totals = ClassTotals.of(labels, counts)
        class_index, classes = totals.groups(labels)
        weights = counts.astype(np.float64)
        if weight_of is not None:
            weights *= weight_of(totals.classes)[class_index]
        means, scatter = scatter_about_means(
            arrays, weights, class_index, classes, dtype=np.float64
        )
        by_class = np.bincount(class_index, weights, classes).astype(np.float64)
        return cls(totals, by_class, means, scatter)

    def __add__(self, other: ClassScatter) -> ClassScatter:
        totals = self.totals + other.totals
        shape = len(totals.classes), self.means.shape[1]
        weights, means = np.zeros((2, shape[0])), np.zeros((2, *shape))
        for side, part in enumerate((self, other)):
            places = totals.places(part.totals.classes)
            weights[side, places], means[side, places] = part.weights, part.means
        both = weights.sum(axis=0)
        share = weights[1] / both
        apart = means[1] - means[0]
        merged = np.where(weights[0, :, None] > 0, means[0] + share[:, None] * apart, means[1])
        in_both = (weights > 0).all(axis=0)
        moved = apart[in_both] * np.sqrt(weights[0] * share)[in_both, None]
        scatter = self.scatter + other.scatter
        if len(moved):
            scatter += outer_products([moved], np.float64)
        return ClassScatter(totals, both, merged, scatter)


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
    """

    then: Callable[[ClassScatter], object]
    weights: ClassWeights | None = None

    def partial(self, parts: Sequence[Any]) -> ClassScatter:
        """Sum over the means of these summaries."""
        return ClassScatter.of(
            [part.means for part in parts],
            np.concatenate([part.classes for part in parts]),
            np.concatenate([part.counts for part in parts]),
            self.weights,
        )

    def add(self, first: ClassScatter, second: ClassScatter) -> ClassScatter:
        """Merge them."""
        return first + second

    def finish(self, total: ClassScatter) -> object:
        """Return what the head is made of."""
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
        """Return what is made of all results together."""
        found = (one.finish(result) for one, result in zip(self.passes, total, strict=True))
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
    """

    totals: ClassTotals
    client_ids: list[str]
    rows_per_client: NDArray[np.int64]
    class_index: NDArray[np.int32]

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
        )

    def in_order(self) -> Roll:
        """Return the same with the clients in the order of their ids, as they are in memory."""
        order = sorted(range(len(self.client_ids)), key=self.client_ids.__getitem__)
        starts = np.cumsum(self.rows_per_client) - self.rows_per_client
        rows = self.rows_per_client[order]
        first = np.cumsum(rows) - rows
        taken = np.repeat(starts[order] - first, rows) + np.arange(int(rows.sum()))
        ids = [self.client_ids[place] for place in order]
        return Roll(self.totals, ids, rows, self.class_index[taken])

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
        totals = ClassTotals.of(labels, np.concatenate([part.counts for part in parts]))
        return Roll(
            totals,
            [name for part in parts for name in part.client_ids],
            np.concatenate([part.rows_per_client for part in parts]),
            totals.places(labels).astype(np.int32),
        )

    def add(self, first: Roll, second: Roll) -> Roll:
        """Put one behind the other."""
        return first + second

    def finish(self, total: Roll) -> Pass[Any]:
        """Return the pass that the roll makes possible."""
        return self.then(total.in_order())


@dataclass(frozen=True, eq=False)
class PickedRows:
    """Means of some rows.

    Parameters
    ----------
    rows, clients : ndarray of int64, shape (picked,)
        The place of each among all rows, and of its client among all clients.
    means : ndarray of float, shape (picked, dim)
    counts : ndarray of int64, shape (picked,)
    labels : ndarray, shape (picked,)
    """

    rows: NDArray[np.int64]
    clients: NDArray[np.int64]
    means: NDArray[np.floating[Any]]
    counts: NDArray[np.int64]
    labels: NDArray[Any]

    def __add__(self, other: PickedRows) -> PickedRows:
        mine, theirs = vars(self), vars(other)
        return PickedRows(**{name: np.concatenate([mine[name], theirs[name]]) for name in mine})

    def in_order(self) -> PickedRows:
        """Return the same in the order of the rows."""
        order = np.argsort(self.rows)
        return PickedRows(**{name: array[order] for name, array in vars(self).items()})


@dataclass(frozen=True, eq=False)
class PickRows(Pass[PickedRows | None]):
    """Keep the means of single rows."""

    wanted: Wanted

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
            means=np.stack([part.means[place] for _, _, part, place in found]),
            counts=np.array([part.counts[place] for _, _, part, place in found]),
            labels=np.array([part.classes[place] for _, _, part, place in found]),
        )

    def add(self, first: PickedRows | None, second: PickedRows | None) -> PickedRows | None:
        """Put one behind the other."""
        return second if first is None else first if second is None else first + second

    def finish(self, total: PickedRows | None) -> PickedRows | None:
        """Return them in their order."""
        return None if total is None else total.in_order()
