"""Within- and between-class scatter, from class means alone.

The matrix of equation sol-with-cov falls into three parts, ``G = G_with + G_btw + N mu_g mu_g^T``.
Each is a weighted sum of outer products, so each is one product of a centred, scaled matrix with
itself: the server never holds a (dim, dim) matrix for every class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from fedcof.errors import SummaryError
from fedcof.summaries import ClassMeans, merge, ordered
from fedcof.summaries.features import add_up, as_features, blocks, sum_by_group

ScatterParts = Literal["within", "between", "both"]

_CACHE_BYTES = 512 << 10
"""Size of what is centred at a time: its centres fit beside it into the cache of a core."""

_FAR = 16.0
"""More than so many times the scatter, taken off, would cost it a digit and more."""

_MANY = 8
"""So many rows a dimension are enough to make a scatter definite whatever the rounding."""


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
    """

    classes: NDArray[Any]
    class_means: NDArray[np.float64]
    class_counts: NDArray[np.int64]
    within_scatter: NDArray[np.float64]

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

    def within(self, shrinkage: float) -> NDArray[np.float64]:
        """Return G_with, `shrinkage` on the diagonal of every Sigma_c (eq. classifier-init)."""
        return add_to_diagonal(self.within_scatter.copy(), self._diagonal(shrinkage))

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
        if parts == "within" and self.total == len(self.classes):
            raise SummaryError(
                "samples",
                f"the {self.total} classes have one sample each in all, so there is no spread "
                "within a class; FedNCM and Fed3R need none",
            )
        gram = self.total * np.outer(self.global_mean, self.global_mean)
        if parts != "between":
            gram += self.within_scatter
        if parts != "within":
            gram += self.between()
        return add_to_diagonal(gram, self._diagonal(shrinkage))

    def _diagonal(self, shrinkage: float) -> float:
        return shrinkage * (self.total - len(self.classes))


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """All class means of a federation, in the paper's letters.

    Parameters
    ----------
    means : sequence of ndarray of float, each of shape (..., dim)
        Every mean that arrived, mu_kc, num_means in all: the clients' own arrays, not a copy.
    counts : ndarray of int64, shape (num_means,)
        The samples behind each, n_kc.
    class_index : ndarray of int64, shape (num_means,)
        The class of each, as an index into `classes`.
    classes : ndarray, shape (classes,)
        The labels in ascending order.
    class_counts : ndarray of int64, shape (classes,)
        N_c.
    """

    means: Sequence[NDArray[np.floating[Any]]]
    counts: NDArray[np.int64]
    class_index: NDArray[np.int64]
    classes: NDArray[Any]
    class_counts: NDArray[np.int64]

    @classmethod
    def of(cls, parts: Sequence[ClassMeans]) -> ClassStatistics:
        """Gather the means of the clients.

        Parameters
        ----------
        parts : sequence of ClassMeans
            As `ordered` gives them.
        """
        if any(one.client_ids[-1] > other.client_ids[0] for one, other in pairwise(parts)):
            parts = [merge(parts)]  # a part holds clients that belong between those of another
        return cls._of(
            [part.means for part in parts],
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.classes for part in parts]),
        )

    @classmethod
    def of_samples(cls, features: ArrayLike, labels: ArrayLike) -> ClassStatistics:
        """Take every sample for a mean of one: the estimate is the samples' covariance then.

        Raises
        ------
        SummaryError
            If the shapes or types do not fit, there is no sample, or a feature is not finite.
        """
        array, coded = as_features(features, labels)
        return cls._of([array], np.ones(len(array), dtype=np.int64), coded)

    @classmethod
    def _of(
        cls,
        means: Sequence[NDArray[np.floating[Any]]],
        counts: NDArray[np.int64],
        labels: NDArray[Any],
    ) -> ClassStatistics:
        classes, class_index = np.unique(labels, return_inverse=True)
        class_counts = np.zeros(len(classes), dtype=np.int64)
        np.add.at(class_counts, class_index, counts)
        return cls(means, counts, class_index, classes, class_counts)

    def class_means(self) -> NDArray[np.float64]:
        """Return mu_c, shape (classes, dim) (eq. fedncm)."""
        sums = sum_by_group(self.means, self.class_index, len(self.classes), self.counts)
        return np.asarray(sums / self.class_counts[:, None])

    @property
    def means_per_class(self) -> NDArray[np.int64]:
        """The number of means that arrived for every class, K_c."""
        return np.bincount(self.class_index, minlength=len(self.classes))

    def scatter(self) -> Scatter:
        """Estimate the scatter (eq. cov-estimate); a class with one mean adds nothing to it."""
        weights = (self.class_counts - 1) / np.maximum(1, self.means_per_class - 1)
        class_means, within = scatter_about_means(
            self.means,
            self.counts * weights[self.class_index],
            self.class_index,
            len(self.classes),
        )
        return Scatter(self.classes, class_means, self.class_counts, within)


def scatter_about_means(
    arrays: Sequence[NDArray[np.floating[Any]]],
    weights: NDArray[Any],
    group_index: NDArray[np.integer[Any]],
    num_groups: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weighted mean of every group of rows, and the scatter about these means.

    The scatter is the sum over i of ``weights[i] x x^T``, where x is row i less the mean of its
    group. The rows are read once, about a row of their group that stands in for the mean. Many
    rows in float32 are centred and multiplied in float32, block by block, and accumulated in
    float64. Few rows are multiplied in float64, which costs little then, and keeps the null space
    of a singular scatter clean.

    Parameters
    ----------
    arrays : sequence of ndarray of float, each of shape (..., dim)
        The rows, one array after the other.
    weights : ndarray, shape (rows,)
        Positive; zero is for a row that is a group of its own.
    group_index : ndarray of int64, shape (rows,)
        The group of each row. No group is empty.
    num_groups : int

    Returns
    -------
    means : ndarray of float64, shape (num_groups, dim)
    scatter : ndarray of float64, shape (dim, dim)

    Raises
    ------
    SummaryError
        If the scatter overflows.
    """
    dtype = np.result_type(np.float32, *{array.dtype for array in arrays})
    if len(weights) <= _MANY * arrays[0].shape[1]:
        dtype = np.dtype(np.float64)
    centres = _heaviest_rows(arrays, weights, group_index, num_groups).astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # looked for once, below
        means, scatter, taken_off = _scatter_about(arrays, weights, group_index, centres)
        if taken_off > _FAR * np.trace(scatter):  # a heavy row lies far out: from the means, then
            centres = means.astype(dtype)
            means, scatter, _ = _scatter_about(arrays, weights, group_index, centres)
    if not np.isfinite(scatter).all():
        if dtype == np.float64:
            largest = max(np.abs(array).max() for array in arrays)
            raise SummaryError(
                "overflow",
                f"the scatter overflows: a mean is as large as {largest:.3g}; scale the features",
            )
        exact = [array.astype(np.float64) for array in arrays]
        return scatter_about_means(exact, weights, group_index, num_groups)
    upper = np.triu(scatter)
    return means, upper + np.triu(upper, 1).T


def _heaviest_rows(
    arrays: Sequence[NDArray[np.floating[Any]]],
    weights: NDArray[Any],
    group_index: NDArray[np.integer[Any]],
    num_groups: int,
) -> NDArray[np.floating[Any]]:
    """Return a row of the largest weight of every group."""
    largest = np.zeros(num_groups)
    np.maximum.at(largest, group_index, weights)
    numbers = np.empty(num_groups, dtype=np.int64)
    heaviest = np.flatnonzero(weights == largest[group_index])
    numbers[group_index[heaviest]] = heaviest
    starts = np.cumsum([0, *map(len, arrays)])
    owners = np.searchsorted(starts, numbers, side="right") - 1
    places = zip(owners.tolist(), (numbers - starts[owners]).tolist(), strict=True)
    return np.stack([arrays[owner][row] for owner, row in places])


def _scatter_about(
    arrays: Sequence[NDArray[np.floating[Any]]],
    weights: NDArray[Any],
    group_index: NDArray[np.integer[Any]],
    centres: NDArray[np.floating[Any]],
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the means, the scatter about them and the trace of what was taken off it.

    For any p, with W the weight of a group and mu its mean::

        sum w (x - mu)(x - mu)^T = sum w (x - p)(x - p)^T - W (mu - p)(mu - p)^T

    Of the scatter, it is the upper triangle.
    """
    (num_groups, dim), dtype = centres.shape, centres.dtype
    scales = np.sqrt(weights).astype(dtype)
    product = linalg.get_blas_funcs("syrk", dtype=dtype)
    scatter = np.zeros((dim, dim), order="F")  # the layout of BLAS
    sums = np.zeros((num_groups, dim))
    for rows, block in blocks(arrays, dtype, at_least=4 * max(dim, num_groups)):
        _centre(block, centres, group_index[rows], scales[rows])
        sums += add_up(block, scales[rows], group_index[rows], num_groups)
        scatter += product(1.0, block.T)
    totals = np.bincount(group_index, weights, num_groups)
    totals[totals == 0] = 1.0
    means = centres + sums / totals[:, None]
    offsets = sums / np.sqrt(totals)[:, None]
    scatter -= product(1.0, offsets.astype(dtype).T)
    return means, scatter, float(np.vdot(offsets, offsets))


def _centre(
    rows: NDArray[Any], centres: NDArray[Any], index: NDArray[Any], scales: NDArray[Any]
) -> None:
    """Subtract the centre of every row and multiply by its scale, in place."""
    step = max(1, _CACHE_BYTES // (rows.itemsize * rows.shape[1]))
    for start in range(0, len(rows), step):
        piece = slice(start, start + step)
        rows[piece] -= centres.take(index[piece], axis=0)
        rows[piece] *= scales[piece, None]


def add_to_diagonal(matrix: NDArray[np.float64], value: float) -> NDArray[np.float64]:
    """Add a multiple of the identity, in place."""
    matrix.flat[:: len(matrix) + 1] += value
    return matrix


def condition_number(scatter: NDArray[np.float64]) -> float:
    """Return the largest eigenvalue over the smallest that is not zero (section 4.3).

    Zero is what `rounding` cannot tell from it.
    """
    values = linalg.eigvalsh(scatter)
    positive = values[values > rounding(values[-1], len(values))]
    return float(positive[-1] / positive[0]) if len(positive) else float("nan")


def rounding(largest: float, dim: int) -> float:
    """Return the size of an eigenvalue that rounding cannot tell from zero.

    The usual ``dim * eps`` times the largest, but 10 eps at least, for small matrices.
    """
    return float(max(dim, 10) * np.finfo(np.float64).eps * largest)


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
            raise KeyError(label)
        mine = np.flatnonzero(self.statistics.class_index == found[0])
        counts = self.statistics.counts[mine]
        _, covariance = scatter_about_means(
            [self.means[mine].astype(np.float64)],
            counts / max(1, len(mine) - 1),
            np.zeros(len(mine), dtype=np.int64),
            1,
        )
        return add_to_diagonal(covariance, self.shrinkage)
