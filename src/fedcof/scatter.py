"""Within- and between-class scatter, from class means alone.

The matrix of equation sol-with-cov falls into three parts, ``G = G_with + G_btw + N mu_g mu_g^T``.
Each is a weighted sum of outer products, so each is one product of a centred, scaled matrix with
itself: the server never holds a (dim, dim) matrix for every class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import linalg

from fedcof.errors import SummaryError
from fedcof.numerics import (
    LARGEST_CORRECTION,
    GroupSums,
    add_to_diagonal,
    outer_products,
    rounding,
    scatter_about_means,
    signed_scatter,
    type_of_products,
)
from fedcof.robust import trusted_counts
from fedcof.summaries import ClassCovariances, ClassMeans, Summary, merge, ordered
from fedcof.summaries.samples import check_samples

S = TypeVar("S", bound=Summary)

ScatterParts = Literal["within", "between", "both"]


@dataclass(frozen=True, eq=False)
class Scatter:
    """The class means and the scatter about them: all that a closed-form head depends on.

    Parameters
    ----------
    classes : ndarray, shape (classes,)
        The labels in ascending order.
    class_means : ndarray of float64, shape (classes, dim)
        mu_c.
    class_counts : ndarray of int64, shape (classes,)
        N_c.
    within_scatter : ndarray of float64, shape (dim, dim)
        The sum of ``(N_c - 1) Sigma_c`` without shrinkage.
    statistics : ClassStatistics, optional
        The means that it is estimated from; None where it was measured.
    class_weights : ndarray of float64, shape (classes,), optional
        How often the estimate takes the scatter of the means of every class.
    """

    classes: NDArray[Any]
    class_means: NDArray[np.float64]
    class_counts: NDArray[np.int64]
    within_scatter: NDArray[np.float64]
    statistics: ClassStatistics | None = None
    class_weights: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @property
    def total(self) -> int:
        """The number of samples, N."""
        return int(self.class_counts.sum())

    @property
    def global_mean(self) -> NDArray[np.float64]:
        """The mean of all samples, mu_g."""
        return np.asarray(self.sums.sum(axis=0) / self.total)

    @property
    def sums(self) -> NDArray[np.float64]:
        """B, the sum of the features of every class, shape (classes, dim)."""
        return self.class_counts[:, None] * self.class_means

    @property
    def mean_variance(self) -> float:
        """The trace of the covariance within the classes over d: a relative shrinkage's unit."""
        freedom = max(1, self.total - len(self.classes))
        return float(np.trace(self.within_scatter) / len(self.within_scatter) / freedom)

    def within(self, shrinkage: float) -> NDArray[np.float64]:
        """Return G_with, `shrinkage` on the diagonal of every Sigma_c (eq. classifier-init)."""
        return add_to_diagonal(self.within_scatter.copy(), self._diagonal(shrinkage))

    def covariance(self, shrinkage: float) -> NDArray[np.float64]:
        """Return the covariance that all classes share: G_with over ``N - C``.

        Raises
        ------
        SummaryError
            If no class has two samples.
        """
        self._check_spread()
        return self.within(shrinkage) / (self.total - len(self.classes))

    def between(self) -> NDArray[np.float64]:
        """Return G_btw, the scatter of the class means about the global mean (eq. sol-with-cov)."""
        everything = np.zeros(len(self.classes), dtype=np.int64)
        return scatter_about_means([self.class_means], self.class_counts, everything, 1)[1]

    def gram(self, shrinkage: float, parts: ScatterParts = "within") -> NDArray[np.float64]:
        """Return G: ``N mu_g mu_g^T``, the scatter asked for and the shrinkage (eq. sol-with-cov).

        The shrinkage stays when the scatter changes, so that an ablation changes one thing.

        Raises
        ------
        SummaryError
            If the scatter within the classes is asked for alone and no class has two samples.
        """
        if parts == "within":
            self._check_spread()
        gram = self.total * np.outer(self.global_mean, self.global_mean)
        if parts != "between":
            gram += self.within_scatter
        if parts != "within":
            gram += self.between()
        return add_to_diagonal(gram, self._diagonal(shrinkage))

    def without(self, sets: Iterable[slice]) -> Iterator[Scatter | None]:
        """Yield the scatter estimated without some of its means, for each of several sets of them.

        It changes in their classes alone. Of such a class, whose weight was w and becomes w', a
        mean that stays counts for ``n (w' - w)`` more and one that goes for ``n w`` less, about the
        old class mean; the move to the new one takes ``w' N' (mu' - mu)(mu' - mu)^T`` away.

        Parameters
        ----------
        sets : iterable of slice
            Which of the means of `statistics` go.

        Yields
        ------
        Scatter or None
            Without `statistics`. None where nothing stays, or so much goes that rounding would show
            in what is left.
        """
        assert self.statistics is not None
        centres = self.class_means.astype(type_of_products(self.statistics.means))
        for gone in sets:
            yield self._without(self.statistics, gone, centres)

    def _without(
        self, statistics: ClassStatistics, gone: slice, centres: NDArray[Any]
    ) -> Scatter | None:
        leaving = _Leaving.of(self, statistics, gone)
        index = statistics.class_index
        change = signed_scatter(statistics.means, leaving.row_weights, index, centres)
        return leaving.what_stays(self, *change)

    def _check_spread(self) -> None:
        if self.total == len(self.classes):
            raise SummaryError(
                "samples",
                f"the {self.total} classes have one sample each in all, so there is no spread "
                "within a class; FedNCM and Fed3R need none",
            )

    def _diagonal(self, shrinkage: float) -> float:
        return shrinkage * (self.total - len(self.classes))


def one_after_the_other(parts: Sequence[S]) -> Sequence[S]:
    """Return summaries, as `ordered` gives them, with all clients in the order of their ids.

    A merged summary may hold clients whose place is between those of another summary: all are
    merged then.
    """
    if any(part.client_ids[-1] > later.client_ids[0] for part, later in pairwise(parts)):
        return [merge(parts)]
    return parts


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """All class means of a federation, in the paper's letters.

    Parameters
    ----------
    means : sequence of ndarray of float, each of shape (..., dim)
        Every mean that arrived, mu_kc, num_means in all: the clients' own arrays, not a copy.
    counts : ndarray of int64 or float64, shape (num_means,)
        The samples behind each, n_kc, or for how many it counts.
    class_index : ndarray of int64, shape (num_means,)
        The class of each, as an index into `classes`.
    classes : ndarray, shape (classes,)
        The labels in ascending order.
    class_counts : ndarray of int64, shape (classes,)
        N_c.
    client_index : ndarray of int64, shape (num_means,)
        The client of each.
    """

    means: Sequence[NDArray[np.floating[Any]]]
    counts: NDArray[Any]
    class_index: NDArray[np.int64]
    classes: NDArray[Any]
    class_counts: NDArray[np.int64]
    client_index: NDArray[np.int64]

    @classmethod
    def of(cls, parts: Sequence[ClassMeans], *, robust: bool = False) -> ClassStatistics:
        """Gather the means of the clients.

        Parameters
        ----------
        parts : sequence of ClassMeans
            As `ordered` gives them.
        robust : bool, default False
            Whether a mean counts for as many samples only as can be believed of it; see
            `fedcof.robust`.
        """
        statistics = cls.of_parts(one_after_the_other(parts))
        return statistics.trusted() if robust else statistics

    @classmethod
    def of_parts(cls, parts: Sequence[ClassMeans]) -> ClassStatistics:
        """Gather the means of clients in the order in which they are given, each once."""
        rows = np.concatenate([part.rows_per_client for part in parts])
        return cls.gather(
            [part.means for part in parts],
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.classes for part in parts]),
            np.repeat(np.arange(len(rows)), rows),
        )

    def trusted(self) -> ClassStatistics:
        """Return the same means with the samples for which each can be believed to count."""
        means = np.concatenate(self.means)
        counts = trusted_counts(means, self.counts, self.class_index, self.client_index)
        labels = self.classes[self.class_index]
        return self.gather([means], counts, labels, self.client_index)

    @classmethod
    def of_samples(cls, features: ArrayLike, labels: ArrayLike) -> ClassStatistics:
        """Take every sample for a mean of one: the estimate is the samples' covariance then.

        Raises
        ------
        SummaryError
            If the shapes or types do not fit, there is no sample, or a feature is not finite.
        """
        array, coded = check_samples(features, labels)
        return cls.gather([array], np.ones(len(array), dtype=np.int64), coded)

    @classmethod
    def gather(
        cls,
        means: Sequence[NDArray[np.floating[Any]]],
        counts: NDArray[Any],
        labels: NDArray[Any],
        client_index: NDArray[np.int64] | None = None,
    ) -> ClassStatistics:
        """Gather means with samples, class and client of each; without clients, one a mean."""
        classes, class_index = np.unique(labels, return_inverse=True)
        class_counts = np.zeros(len(classes), dtype=np.int64)
        np.add.at(class_counts, class_index, np.rint(counts).astype(np.int64))
        class_counts = np.maximum(class_counts, np.bincount(class_index))  # of trusted counts
        if client_index is None:
            client_index = np.arange(len(counts))
        return cls(means, counts, class_index, classes, class_counts, client_index)

    @classmethod
    def of_classes(
        cls, classes: NDArray[Any], counts: NDArray[np.int64], means: NDArray[np.float64]
    ) -> ClassStatistics:
        """Take the mean of every class for one that a client sent."""
        return cls.gather([means], counts, classes)

    def class_means(self) -> NDArray[np.float64]:
        """Return mu_c, shape (classes, dim) (eq. fedncm)."""
        return GroupSums.of(self.means, self.class_index, len(self.classes), self.counts).means

    @property
    def means_per_class(self) -> NDArray[np.int64]:
        """The number of means that arrived for every class, K_c."""
        return np.bincount(self.class_index, minlength=len(self.classes))

    def scatter_of_means(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mu_c and the sum of ``n_kc (mu_kc - mu_c)(mu_kc - mu_c)^T`` over all means."""
        groups = self.class_index, len(self.classes)
        return scatter_about_means(self.means, self.counts, *groups)

    def by_client(
        self, dtype: DTypeLike | None = None
    ) -> tuple[ClassStatistics, NDArray[np.float64]]:
        """Join the means of one class that a client sent.

        Parameters
        ----------
        dtype : data type of the products, optional
            As in `fedcof.numerics.scatter_about_means`.

        Returns
        -------
        statistics : ClassStatistics
            With one mean for a client and class: what the client would have sent without more.
        scatter : ndarray of float64, shape (dim, dim)
            The sum of ``n (mu - mu_kc)(mu - mu_kc)^T`` of the means that were joined about it.
        """
        pairs, pair_index = np.unique(
            self.client_index * len(self.classes) + self.class_index, return_inverse=True
        )
        counts = np.zeros(len(pairs), dtype=self.counts.dtype)
        np.add.at(counts, pair_index, self.counts)
        joined, scatter = scatter_about_means(
            self.means, self.counts, pair_index, len(pairs), dtype=dtype
        )
        clients, classes = np.divmod(pairs, len(self.classes))
        statistics = ClassStatistics.gather([joined], counts, self.classes[classes], clients)
        return statistics, scatter

    def scatter(self) -> Scatter:
        """Estimate the scatter (eq. cov-estimate); a class with one mean adds nothing to it."""
        weights = (self.class_counts - 1) / np.maximum(1, self.means_per_class - 1)
        class_means, within = scatter_about_means(
            self.means,
            self.counts * weights[self.class_index],
            self.class_index,
            len(self.classes),
        )
        return Scatter(self.classes, class_means, self.class_counts, within, self, weights)


@dataclass(frozen=True, eq=False)
class PickedStatistics(ClassStatistics):
    """Some of the class means of a federation, beside what is known of all of them.

    Parameters
    ----------
    all_rows : ndarray of int64, shape (classes,)
        K_c of the whole federation, as `class_counts` is its N_c.
    """

    all_rows: NDArray[np.int64]

    @property
    def means_per_class(self) -> NDArray[np.int64]:
        """The number of means that arrived for every class, K_c."""
        return self.all_rows


@dataclass(frozen=True, eq=False)
class _Leaving:
    """What changes where some means leave; see `Scatter.without`.

    Parameters
    ----------
    held : ndarray of int64, shape (held,)
        Their classes, the only ones that change.
    taken : GroupSums
        Of the means that leave, by class held, less the class mean.
    class_counts : ndarray of int64, shape (classes,)
        The samples that stay.
    class_weights : ndarray of float64, shape (classes,)
        Those of what stays; 0 for a class that goes as a whole.
    row_weights : ndarray of float64, shape (num_means,)
        By how much every mean counts more or less.
    """

    held: NDArray[np.int64]
    taken: GroupSums
    class_counts: NDArray[Any]
    class_weights: NDArray[np.float64]
    row_weights: NDArray[np.float64]

    @classmethod
    def of(cls, scatter: Scatter, statistics: ClassStatistics, gone: slice) -> _Leaving:
        index = statistics.class_index
        starts = np.cumsum([0, *map(len, statistics.means)])
        first, last = np.searchsorted(starts, [gone.start, gone.stop - 1], side="right") - 1
        rows = np.concatenate(statistics.means[first : last + 1])
        rows = rows[gone.start - starts[first] : gone.stop - starts[first]]
        offsets = rows - scatter.class_means[index[gone]]
        held, own = np.unique(index[gone], return_inverse=True)
        taken = GroupSums.of([offsets], own, len(held), statistics.counts[gone])
        left = scatter.class_counts[held] - taken.weights
        others = np.maximum(1, statistics.means_per_class[held] - taken.rows - 1)
        class_counts, class_weights = scatter.class_counts.copy(), scatter.class_weights.copy()
        class_counts[held] = left
        class_weights[held] = np.where(left > 0, (left - 1) / others, 0.0)
        changes = (class_weights - scatter.class_weights)[index]
        changes[gone] = -scatter.class_weights[index[gone]]
        return cls(held, taken, class_counts, class_weights, statistics.counts * changes)

    def what_stays(
        self, scatter: Scatter, more: NDArray[np.float64], less: NDArray[np.float64]
    ) -> Scatter | None:
        """Return the scatter with one sum of outer products more and another one less."""
        stays, left = self.class_counts > 0, np.maximum(self.class_counts[self.held], 1)
        moves = self.taken.sums * np.sqrt(self.class_weights[self.held] / left)[:, None]
        less = less + outer_products([moves], np.float64)
        within = scatter.within_scatter + more - less
        if not stays.any() or not np.trace(less) <= LARGEST_CORRECTION * np.trace(within):
            return None
        class_means = scatter.class_means.copy()
        class_means[self.held] -= self.taken.sums / left[:, None]
        return Scatter(
            scatter.classes[stays],
            class_means if stays.all() else class_means[stays],
            self.class_counts[stays],
            within,
            class_weights=self.class_weights[stays],
        )


def condition_number(scatter: NDArray[np.float64]) -> float:
    """Return the largest eigenvalue over the smallest that is not zero (section 4.3).

    An eigenvalue within `rounding` counts as zero.
    """
    values = linalg.eigvalsh(scatter)
    positive = values[values > rounding(values[-1], len(values))]
    return float(positive[-1] / positive[0]) if len(positive) else float("nan")


def estimator_bias(
    counts: ArrayLike, means: ArrayLike, covariances: Iterable[NDArray[np.floating[Any]]]
) -> NDArray[np.float64]:
    """Return the bias of a class's estimated covariance where its clients differ (appendix F).

    With ``Sigma`` and ``mu`` of the class over all clients, each weighted by its count, it is ``sum
    (Sigma_k - Sigma) / (K - 1)`` and the sum of ``n_k (mu_k - mu)(mu_k - mu)^T`` over ``K - 1``. It
    is 0 where all clients are alike. Under shift the second sum grows with the counts: more samples
    a mean make it worse, more means a client better.

    Parameters
    ----------
    counts : array_like, shape (means,)
        The samples behind each mean, n_k, or how many are expected.
    means : array_like of float, shape (means, dim)
        The means of the populations that these samples are drawn from, mu_k.
    covariances : iterable of ndarray of float, each of shape (dim, dim)
        Their covariances, Sigma_k.

    Returns
    -------
    ndarray of float64, shape (dim, dim)
        Of a class with one mean, which is not estimated, all of its covariance with a minus.
    """
    n_k, mu_k = np.asarray(counts, np.float64), np.asarray(means, np.float64)
    total, num_means = n_k.sum(), len(n_k)
    deviations = mu_k - n_k @ mu_k / total
    between = (deviations * n_k[:, None]).T @ deviations
    spread, weighted = np.zeros_like(between), np.zeros_like(between)
    for count, sigma_k in zip(n_k, covariances, strict=True):  # one at a time: they may be many
        spread += sigma_k
        weighted += count * np.asarray(sigma_k, np.float64)
    sigma = (weighted + between) / total
    if num_means == 1:
        return np.asarray(-sigma)
    return np.asarray((spread - num_means * sigma + between) / (num_means - 1))


def within_scatter_bias(
    sent: Sequence[ClassMeans], populations: Sequence[ClassCovariances]
) -> NDArray[np.float64]:
    """Return what the bias adds to G_with: the sum of ``(N_c - 1)`` times that of every class.

    Parameters
    ----------
    sent : sequence of ClassMeans
        What each client sends, for the counts behind its means.
    populations : sequence of ClassCovariances
        The true moments of each client's classes, in the order of `sent`.
    """
    bias = np.zeros((sent[0].dim, sent[0].dim))
    for label in np.unique(np.concatenate([part.classes for part in sent])):
        drawn = [
            (count, moments.means[row], moments.covariances[row])
            for part, moments in zip(sent, populations, strict=True)
            for count in part.counts[part.classes == label]
            for row in np.flatnonzero(moments.classes == label)
        ]
        counts, means, covariances = zip(*drawn, strict=True)
        bias += (sum(counts) - 1) * estimator_bias(counts, means, covariances)
    return bias


def estimate_class_covariances(
    summaries: Iterable[ClassMeans], shrinkage: float = 0.0
) -> Mapping[int | str, NDArray[np.float64]]:
    """Return the unbiased estimate of every class's covariance from class means alone.

    With K_c means of class c, it is the sum of ``n_kc (mu_kc - mu_c)(mu_kc - mu_c)^T`` over
    ``K_c - 1``, plus ``shrinkage`` times the identity (eq. cov-estimate, final-cov-estimate).

    Parameters
    ----------
    summaries : iterable of ClassMeans
        What the clients sent.
    shrinkage : float, default 0.0
        gamma.

    Returns
    -------
    mapping of label to ndarray of float64, shape (dim, dim)
        Each matrix is made when it is asked for. A class with one mean has no estimate: its matrix
        is the shrinkage alone.

    Raises
    ------
    SummaryError
        If there is no summary, two do not fit together, or a client appears twice.
    """
    merged = merge(ordered(summaries, ClassMeans))
    return _ClassCovariances(merged.means, ClassStatistics.of([merged]), shrinkage)


@dataclass(frozen=True, eq=False)
class _ClassCovariances(Mapping[int | str, NDArray[np.float64]]):
    means: NDArray[np.floating[Any]]
    statistics: ClassStatistics
    shrinkage: float

    def __len__(self) -> int:
        return len(self.statistics.classes)

    def __iter__(self) -> Iterator[int | str]:
        return iter(self.statistics.classes.tolist())

    def __getitem__(self, label: int | str) -> NDArray[np.float64]:
        found = np.flatnonzero(self.statistics.classes == label)
        if len(found) == 0:
            known = ", ".join(map(repr, list(self)[:20])) + (", ..." if len(self) > 20 else "")
            raise KeyError(f"no class {label!r} among those with an estimate: {known}")
        rows = np.flatnonzero(self.statistics.class_index == found[0])
        counts = self.statistics.counts[rows]
        _, covariance = scatter_about_means(
            [self.means[rows].astype(np.float64)],
            counts / max(1, len(rows) - 1),
            np.zeros(len(rows), dtype=np.int64),
            1,
        )
        return add_to_diagonal(covariance, self.shrinkage)
