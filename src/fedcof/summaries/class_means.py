"""The mean and the count of every class: what FedNCM and FedCOF send."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import SummaryError, naming
from fedcof.numerics import GroupSums, rows_of_block
from fedcof.summaries.client_rows import ClientRows, joining
from fedcof.summaries.samples import Samples, Seed, Seeds, check_samples


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassMeans(ClientRows):
    """Means of disjoint sets of samples of one class each, with their counts.

    Parameters
    ----------
    means : ndarray of float, shape (rows, dim)
        The mean feature of every set. A class may have several rows (appendix D of the paper). The
        rows are in the order of the clients; none are merged.
    """

    kind: ClassVar[str] = "class-means"
    axes: ClassVar[dict[str, tuple[str, ...]]] = {"means": ("rows", "dim")}
    centred: ClassVar[frozenset[str]] = frozenset({"means"})
    checked_by_row: ClassVar[bool] = True
    summarized_together: ClassVar[bool] = True

    means: NDArray[np.floating[Any]]

    @classmethod
    def summarize(
        cls,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        client_id: str = "",
        rng: Seed = None,
        means_per_class: int = 1,
    ) -> Self:
        """Return the mean (or means) and the count of every class; see `fedcof.summarize`."""
        if means_per_class == 1:  # all samples of a class are one set
            with naming(client_id):
                array, coded = check_samples(features, labels)
            return cls._of([Samples(array, coded, client_id)])
        summarizer = Summarizer(means_per_class=means_per_class, rng=rng, client_id=client_id)
        summarizer.update(features, labels)
        return cls(**summarizer.rows())

    @classmethod
    def summarize_each(
        cls, clients: Sequence[Samples], rng: Seeds, *, means_per_class: int = 1, **settings: Any
    ) -> Sequence[Self]:
        """Return the statistics of several clients, with one mean a class many at a time.

        Of a client with a few samples, a call takes far longer than the sums. The bits are those of
        each client alone.
        """
        if means_per_class > 1:
            settings["means_per_class"] = means_per_class
            return super().summarize_each(clients, rng, **settings)
        return [own for few in _in_one_block(clients) for own in cls._of_each(few)]

    @classmethod
    def _of_each(cls, clients: Sequence[Samples]) -> list[Self]:
        try:
            return cls._of(clients).apart()
        except SummaryError:  # whose fault it is, only one by one tells
            return [cls._of([own]) for own in clients]

    @classmethod
    def _of(cls, clients: Sequence[Samples]) -> Self:
        """Return the mean and the count of every class of clients in the order of their ids."""
        features = [own.features for own in clients]
        client_index = np.repeat(np.arange(len(clients)), [len(array) for array in features])
        labels = np.concatenate([own.labels for own in clients])
        classes, class_index = np.unique(labels, return_inverse=True)
        sets, set_index = np.unique(client_index * len(classes) + class_index, return_inverse=True)
        by_set = GroupSums.of(features, set_index, len(sets))
        return cls(
            client_ids=tuple(own.client_id for own in clients),
            classes=classes[sets % len(classes)],
            counts=by_set.rows,
            means=by_set.means,
            rows_per_client=np.bincount(sets // len(classes)),
            origin=clients[0].origin,
        )

    @property
    def dim(self) -> int:
        """The length of a feature, d."""
        return int(self.means.shape[1])

    @property
    def row_means(self) -> NDArray[np.floating[Any]]:
        """The means themselves."""
        return self.means

    @cached_property
    def scale(self) -> float:
        """The largest number in a mean, without its sign."""
        return float(np.abs(self.means).max())

    def joined(self, least: int) -> Self:
        """Return the means of a client with small sets of a class joined; see `joining`."""
        sets = joining(self.classes, self.counts, least)
        if len(sets) == sets.max() + 1:
            return self
        first = np.unique(sets, return_index=True)[1]
        counts = np.bincount(sets, self.counts)
        sums = np.zeros((len(counts), self.dim))
        np.add.at(sums, sets, self.means.astype(np.float64) * self.counts[:, None])
        means = (sums / counts[:, None]).astype(self.means.dtype)
        return replace(
            self,
            classes=self.classes[first],
            counts=counts,
            means=means,
            rows_per_client=np.array([len(counts)]),
        )


def _in_one_block(clients: Sequence[Samples]) -> Iterator[list[Samples]]:
    """Yield neighbours that can be summed together: all of their rows are one block of NumPy's.

    So the rows of a client are added in one order, whoever its neighbours are. Their ids ascend,
    and they agree in the type of labels, the length of features and what made these.
    """
    few: list[Samples] = []
    rows, common = 0, None
    for own in clients:
        dim = own.features.shape[1]
        alike = (dim, own.labels.dtype.kind, own.origin)
        rows += len(own.labels)
        if few and (
            alike != common
            or rows > rows_of_block(dim, np.float64)
            or few[-1].client_id >= own.client_id
        ):
            yield few
            few, rows = [], len(own.labels)
        few.append(own)
        common = alike
    if few:
        yield few


class Summarizer:
    """Class means from batches, without ever holding all features.

    With several means a class, the samples of a class are dealt in the order of their arrival:
    every run of `means_per_class` samples goes to the sets in a random order. So the sets are
    disjoint, differ by one sample at most, and do not depend on how the samples were cut into
    batches. Sets of a class with fewer than ``2 * means_per_class`` samples are joined until each
    holds at least two (appendix D). Samples whose order carries a trend must be shuffled first.

    Parameters
    ----------
    means_per_class : int, default 1
        The number of means that a class may have.
    rng : numpy.random.Generator or int, optional
        Deals the samples to the sets; needed if and only if there are several.
    client_id : str, optional
        The client's name.

    Examples
    --------
    >>> summarizer = Summarizer()
    >>> summarizer.update(np.array([[1.0, 2.0]]), ["cat"])
    >>> summarizer.update(np.array([[3.0, 6.0]]), ["cat"])
    >>> summarizer.finish().means
    array([[2., 4.]])
    """

    def __init__(self, *, means_per_class: int = 1, rng: Seed = None, client_id: str = "") -> None:
        if means_per_class < 1:
            raise ValueError(f"means_per_class must be at least 1, not {means_per_class}")
        if means_per_class > 1 and rng is None:
            raise ValueError(
                "several means per class are random sets: give rng, a Generator or a seed"
            )
        self.means_per_class = means_per_class
        self.client_id = client_id
        self._entropy = (
            int(np.random.default_rng(rng).integers(2**63)) if means_per_class > 1 else 0
        )
        self._sets: dict[int | str, _Sets] = {}

    def update(self, features: ArrayLike, labels: ArrayLike) -> None:
        """Add a batch of features, shape (n, dim), float16, 32 or 64, with their n labels.

        Raises
        ------
        SummaryError
            If the batch is not well-formed or not finite; nothing of it is counted then.
        """
        with naming(self.client_id):
            self._update(*check_samples(features, labels))

    def _update(self, features: NDArray[np.floating[Any]], labels: NDArray[Any]) -> None:
        width, dim = self.means_per_class, features.shape[1]
        classes, class_index = np.unique(labels, return_inverse=True)
        self._check_fits(classes, dim)
        group_index = class_index * width
        for position, label in enumerate(classes.tolist()):
            sets = self._sets.setdefault(label, _Sets(width, dim, self._seed(label)))
            if width > 1:
                rows = np.flatnonzero(class_index == position)
                group_index[rows] += sets.deal(len(rows))
        num_groups = len(classes) * width
        by_set = GroupSums.of([features], group_index, num_groups)
        sums, counts = by_set.sums.reshape(-1, width, dim), by_set.rows.reshape(-1, width)
        for position, label in enumerate(classes.tolist()):
            self._sets[label].add(sums[position], counts[position])

    def _check_fits(self, classes: NDArray[Any], dim: int) -> None:
        for label, sets in self._sets.items():
            if sets.sums.shape[1] != dim:
                raise SummaryError("dim", f"features of length {dim} after {sets.sums.shape[1]}")
            if isinstance(label, str) != (classes.dtype.kind == "U"):
                raise SummaryError("labels", "labels must be all ints or all strings")
            return

    def _seed(self, label: int | str) -> list[int]:
        # From the label, so that no class's sets depend on which other classes came before.
        return [self._entropy, zlib.crc32(str(label).encode(errors="surrogatepass"))]

    def finish(self) -> ClassMeans:
        """Return the summary of all that was added, classes in ascending order.

        Raises
        ------
        SummaryError
            If nothing was added, or a class's sum overflows.
        """
        return ClassMeans(**self.rows())

    def rows(self) -> dict[str, Any]:
        """Return the fields of that summary."""
        rows = [
            (label, count, total / count)
            for label, sets in sorted(self._sets.items())
            for total, count in sets.joined()
        ]
        if not rows:
            raise SummaryError("empty", "no samples were added", client_id=self.client_id)
        labels, counts, means = zip(*rows, strict=True)
        return {
            "client_ids": (self.client_id,),
            "classes": np.array(labels),
            "counts": np.array(counts),
            "means": np.stack(means),
        }


class _Sets:
    """The disjoint random sets of one class: their sums and counts."""

    def __init__(self, width: int, dim: int, seed: list[int]) -> None:
        self.sums = np.zeros((width, dim))
        self.counts = np.zeros(width, dtype=np.int64)
        self._seed = seed
        self._rng: np.random.Generator | None = None
        self._deck = np.empty(0, dtype=np.int64)

    def deal(self, samples: int) -> NDArray[np.int64]:
        """Return the set of each of the next samples."""
        if self._rng is None:
            self._rng = np.random.default_rng(self._seed)
        width = len(self.counts)
        runs = -(-max(0, samples - len(self._deck)) // width)
        fresh = self._rng.permuted(np.tile(np.arange(width), (runs, 1)), axis=1).ravel()
        deck = np.concatenate([self._deck, fresh])
        self._deck = deck[samples:]
        return deck[:samples]

    def add(self, sums: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
        self.sums += sums
        self.counts += counts

    def joined(self) -> list[tuple[NDArray[np.float64], int]]:
        """Return the sets with the single samples joined in pairs, an odd one to the last set."""
        sets = [(s, int(n)) for s, n in zip(self.sums, self.counts, strict=True) if n >= 2]
        single = self.sums[self.counts == 1]
        sets += [(a + b, 2) for a, b in zip(single[::2], single[1::2], strict=False)]
        if len(single) % 2:
            last = sets.pop() if sets else (0.0, 0)
            sets.append((last[0] + single[-1], last[1] + 1))
        return sets


def summarize(
    features: ArrayLike,
    labels: ArrayLike,
    *,
    means_per_class: int = 1,
    rng: Seed = None,
    client_id: str = "",
) -> ClassMeans:
    """Return the mean and the count of every class, all that a client sends (algorithm 1).

    Parameters
    ----------
    features : array_like of float16, float32 or float64, shape (n, dim)
        The features of the client's samples; summed in float64.
    labels : array_like of int or str, shape (n,)
        The class of every sample.
    means_per_class : int, default 1
        How many means of disjoint random sets of samples a class may have (appendix D); see
        `Summarizer`.
    rng : numpy.random.Generator or int, optional
        Makes those sets; needed where there are several.
    client_id : str, optional
        The client's name.

    Returns
    -------
    ClassMeans
        In float64; it goes over the wire in float32.

    Raises
    ------
    SummaryError
        If the shapes or types do not fit, there is no sample, or a feature is not finite.

    Examples
    --------
    >>> summarize(np.array([[1.0, 2.0], [3.0, 6.0]]), ["cat", "cat"]).means
    array([[2., 4.]])
    """
    return ClassMeans.summarize(
        features, labels, means_per_class=means_per_class, rng=rng, client_id=client_id
    )
