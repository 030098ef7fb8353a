"""Sums over many rows: in blocks, by group, and as scatter about centres.

`GroupSums` and `CentredScatter` are partial results. Those of two parts of the rows, added, are
those of all rows, so a server may stream its rows and workers may share them: first the sums of
every group, which give the centres, then the scatter about these centres.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import linalg
from scipy.special import ndtri

from fedcof.algebra import current
from fedcof.algebra.host import sum_block
from fedcof.errors import SummaryError

Rows = Sequence[NDArray[np.floating[Any]]]
"""Arrays of shape (..., dim): their rows, one array after the other."""

_BLOCK_BYTES = 2 << 20
"""Bytes of a block: large enough for NumPy to be fast, small enough for the processor's cache."""

LARGEST_CORRECTION = 16.0
"""If moving the scatter to the means subtracts more than 16 times what is left, a decimal digit is
lost: the scatter is then computed again, about the means."""

_ROWS_PER_DIM_IN_FLOAT64 = 8
_PRODUCTS_IN_FLOAT64 = 2**33
"""Up to 8 rows a dimension, or up to so many multiplications (a fraction of a second), products in
float64 cost little. With few rows, rounding in float32 could turn a zero eigenvalue into a positive
one; with more, a scatter in memory equals one that is streamed, to 1e-10."""


def rows_of_block(dim: int, dtype: DTypeLike) -> int:
    """Return how many rows of some length a block of `blocks` has at least."""
    return max(1, _BLOCK_BYTES // (np.dtype(dtype).itemsize * dim))


def blocks(
    arrays: Rows, dtype: DTypeLike, *, at_least: int = 1
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield the rows of several arrays in blocks of one size; the last may be smaller.

    A block does not depend on how the rows are dealt to the arrays. It is a copy that may be
    changed, and lasts until the next block, since all share one buffer.

    Parameters
    ----------
    arrays : sequence of ndarray of float, each of shape (..., dim)
    dtype : data type of the blocks
    at_least : int, default 1
        Rows of a block, where its bytes alone would make it smaller.

    Yields
    ------
    rows : slice
        Which rows these are.
    block : ndarray, shape (rows, dim)
    """
    dim = arrays[0].shape[1]
    size = max(rows_of_block(dim, dtype), at_least)
    size = min(size, max(1, sum(map(len, arrays))))
    memory = np.empty((size, dim), dtype)
    pieces: list[NDArray[Any]] = []
    start, missing = 0, size
    for array in arrays:
        if len(array) < missing:  # the usual case for thousands of clients with a few rows each
            pieces.append(array)
            missing -= len(array)
            continue
        for first in (0, *range(missing, len(array), size)):
            pieces.append(array[first : first + missing])
            missing -= len(pieces[-1])
            if missing == 0:
                yield slice(start, start + size), np.concatenate(pieces, out=memory)
                pieces, start, missing = [], start + size, size
    if rest := size - missing:
        yield slice(start, start + rest), np.concatenate(pieces, out=memory[:rest])


def sum_by_group(
    arrays: Rows,
    group_index: NDArray[np.integer[Any]],
    num_groups: int,
    weights: NDArray[Any] | None = None,
) -> NDArray[np.float64]:
    """Return the weighted sum of the rows in every group, shape (num_groups, dim), in float64."""
    weights = np.ones(len(group_index)) if weights is None else weights.astype(np.float64)
    sums = np.zeros((num_groups, arrays[0].shape[1]))
    for rows, block in blocks(arrays, np.float64, at_least=2 * num_groups):
        sums += sum_block(block, weights[rows], group_index[rows], num_groups)
    return sums


def squared_distances(
    arrays: Rows, group_index: NDArray[np.integer[Any]], centres: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """Return the squared distance of every row to the centre of its group, in float64."""
    squares = np.empty(len(group_index))
    for rows, block in blocks(arrays, np.float64):
        offsets = block - centres[group_index[rows]]
        squares[rows] = np.einsum("ij,ij->i", offsets, offsets)
    return squares


def signed_scatter(
    arrays: Rows,
    weights: NDArray[np.float64],
    group_index: NDArray[np.integer[Any]],
    centres: NDArray[np.floating[Any]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scatter of rows about given centres, of weights that may be negative or zero.

    Parameters
    ----------
    arrays : sequence of ndarray of float, each of shape (..., dim)
    weights : ndarray of float64, shape (rows,)
    group_index : ndarray of int64, shape (rows,)
    centres : ndarray of float, shape (groups, dim)
        Their data type is that of the products.

    Returns
    -------
    more, less : ndarray of float64, shape (dim, dim)
        Of the rows of positive weight, and of those of negative weight without the sign.
    """
    dim, dtype = centres.shape[1], centres.dtype
    negative = [np.empty((0, dim), dtype)]

    def positive() -> Iterator[NDArray[Any]]:
        for rows, block in blocks(arrays, dtype, at_least=4 * dim):
            signed = weights[rows]
            some = np.flatnonzero(signed)
            scaled = block[some] - centres[group_index[rows][some]]
            scaled *= np.sqrt(np.abs(signed[some])).astype(dtype)[:, None]
            below = signed[some] < 0
            negative.append(scaled[below])
            yield scaled[~below]

    more = _symmetric(current().outer_products(positive(), dim, dtype))
    return more, outer_products(negative, dtype)


def outer_products(arrays: Rows, dtype: DTypeLike) -> NDArray[np.float64]:
    """Return the sum of the outer products of all rows, shape (dim, dim).

    Parameters
    ----------
    arrays : sequence of ndarray of float, each of shape (..., dim)
    dtype : data type of the products
        They are summed in float64.
    """
    dim = arrays[0].shape[1]
    rows = (block for _, block in blocks(arrays, dtype, at_least=4 * dim))
    return _symmetric(current().outer_products(rows, dim, np.dtype(dtype)))


def _symmetric(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a matrix of which the upper triangle is given."""
    upper = np.triu(products)
    return np.asarray(upper + np.triu(upper, 1).T)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """How many rows every group has, their weights and their sum; adds up.

    Parameters
    ----------
    rows : ndarray of int64, shape (groups,)
        The number of rows; of class means, K_c.
    weights : ndarray of int64 or float64, shape (groups,)
        The sum of their weights; of class means weighted by samples, N_c.
    sums : ndarray of float64, shape (groups, dim)
        The weighted sum of the rows.

    Examples
    --------
    >>> index, weights = np.array([0, 1]), np.array([1, 2])
    >>> first = GroupSums.of([np.array([[1.0], [4.0]])], index, 2, weights)
    >>> second = GroupSums.of([np.array([[4.0], [1.0]])], index, 2, weights)
    >>> (first + second).means
    array([[2.5],
           [2.5]])
    """

    rows: NDArray[np.int64]
    weights: NDArray[Any]
    sums: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        arrays: Rows,
        group_index: NDArray[np.integer[Any]],
        num_groups: int,
        weights: NDArray[Any] | None = None,
    ) -> Self:
        """Sum rows by group; without weights, every row has 1."""
        rows = np.bincount(group_index, minlength=num_groups)
        totals = rows
        if weights is not None:
            totals = np.zeros(num_groups, dtype=weights.dtype)
            np.add.at(totals, group_index, weights)
        return cls(
            rows=rows,
            weights=totals,
            sums=sum_by_group(arrays, group_index, num_groups, weights),
        )

    def __add__(self, other: Self) -> Self:
        if self.sums.shape != other.sums.shape:
            raise ValueError(
                f"sums of shapes {self.sums.shape} and {other.sums.shape} do not add up"
            )
        return replace(
            self,
            rows=self.rows + other.rows,
            weights=self.weights + other.weights,
            sums=self.sums + other.sums,
        )

    @property
    def means(self) -> NDArray[np.float64]:
        """The weighted mean of every group, shape (groups, dim)."""
        return np.asarray(self.sums / self.weights[:, None])


@dataclass(frozen=True, eq=False)
class CentredScatter:
    """The scatter of rows about given centres, one a group; adds up where the centres are the same.

    Parameters
    ----------
    centres : ndarray of float, shape (groups, dim)
        Their data type is that of the products.
    weights : ndarray of float64, shape (groups,)
        The sum of the rows' weights in every group.
    sums : ndarray of float64, shape (groups, dim)
        The weighted sum of ``x - centre`` in every group.
    scatter : ndarray of float64, shape (dim, dim)
        The weighted sum of ``(x - centre)(x - centre)^T``. Only the upper triangle is filled.
    """

    centres: NDArray[np.floating[Any]]
    weights: NDArray[np.float64]
    sums: NDArray[np.float64]
    scatter: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        arrays: Rows,
        weights: NDArray[Any],
        group_index: NDArray[np.integer[Any]],
        centres: NDArray[np.floating[Any]],
    ) -> Self:
        """Centre rows, multiply them in the centres' data type, accumulate in float64."""
        (num_groups, dim), dtype = centres.shape, centres.dtype
        scales = np.sqrt(weights).astype(dtype)
        scaled = (
            (block, group_index[rows], scales[rows])
            for rows, block in blocks(arrays, dtype, at_least=4 * max(dim, num_groups))
        )
        sums, scatter = current().centred_products(scaled, centres)
        totals = np.bincount(group_index, weights, num_groups).astype(np.float64)
        return cls(centres, totals, sums, scatter)

    def __add__(self, other: Self) -> Self:
        if not np.array_equal(self.centres, other.centres):
            raise ValueError("scatters about different centres do not add up")
        return replace(
            self,
            weights=self.weights + other.weights,
            sums=self.sums + other.sums,
            scatter=self.scatter + other.scatter,
        )

    @property
    def _divisors(self) -> NDArray[np.float64]:
        return np.where(self.weights > 0, self.weights, 1.0)

    @property
    def means(self) -> NDArray[np.float64]:
        """The weighted mean of every group, shape (groups, dim); the centre of an empty one."""
        return np.asarray(self.centres + self.sums / self._divisors[:, None])

    @property
    def _offsets(self) -> NDArray[np.float64]:
        return np.asarray(self.sums / np.sqrt(self._divisors)[:, None])

    @property
    def correction(self) -> float:
        """The trace of what `about_means` subtracts."""
        offsets = self._offsets
        return float(np.vdot(offsets, offsets))

    def about_means(self) -> NDArray[np.float64]:
        """Return the scatter about the means of the groups, shape (dim, dim).

        For any centre p of a group with weight W and mean mu::

            sum w (x - mu)(x - mu)^T = sum w (x - p)(x - p)^T - W (mu - p)(mu - p)^T
        """
        return _symmetric(self.scatter - outer_products([self._offsets], self.centres.dtype))


def scatter_about_means(
    arrays: Rows,
    weights: NDArray[Any],
    group_index: NDArray[np.integer[Any]],
    num_groups: int,
    *,
    dtype: DTypeLike | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weighted mean of every group of rows, and the scatter about these means.

    The scatter is the sum over i of ``weights[i] x x^T``, where x is row i less the mean of its
    group. The rows are read once, centred about the heaviest row of their group; the scatter is
    then moved to the means. Many rows in float32 are multiplied in float32 and accumulated in
    float64.

    Parameters
    ----------
    arrays : sequence of ndarray of float, each of shape (..., dim)
        The rows, one array after the other.
    weights : ndarray, shape (rows,)
        Positive, or zero for a row that is alone in its group.
    group_index : ndarray of int64, shape (rows,)
        The group of each row. No group is empty.
    num_groups : int
    dtype : data type of the products, optional
        By default that of the rows where they are many, and float64 where they are few.

    Returns
    -------
    means : ndarray of float64, shape (num_groups, dim)
    scatter : ndarray of float64, shape (dim, dim)

    Raises
    ------
    SummaryError
        If the scatter is not finite in float64.
    """
    dtype = type_of_products(arrays) if dtype is None else np.dtype(dtype)
    centres = _heaviest_rows(arrays, weights, group_index, num_groups).astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found below
        partial = CentredScatter.of(arrays, weights, group_index, centres)
        scatter = partial.about_means()
        if partial.correction > LARGEST_CORRECTION * np.trace(scatter):
            means = partial.means.astype(dtype)
            partial = CentredScatter.of(arrays, weights, group_index, means)
            scatter = partial.about_means()
    if np.isfinite(scatter).all():
        return partial.means, scatter
    if dtype == np.float64:
        largest = max(np.abs(array).max() for array in arrays)
        raise SummaryError(
            "overflow",
            f"the scatter overflows: a mean is as large as {largest:.3g}; scale the features",
        )
    in_float64 = [array.astype(np.float64) for array in arrays]
    return scatter_about_means(in_float64, weights, group_index, num_groups)


def type_of_products(arrays: Rows) -> np.dtype[Any]:
    """Return float64 for few rows, where it costs little, and their own data type for many."""
    rows, dim = sum(map(len, arrays)), arrays[0].shape[1]
    if rows <= _ROWS_PER_DIM_IN_FLOAT64 * dim or rows * dim**2 <= _PRODUCTS_IN_FLOAT64:
        return np.dtype(np.float64)
    return np.result_type(np.float32, *{array.dtype for array in arrays})


def _heaviest_rows(
    arrays: Rows,
    weights: NDArray[Any],
    group_index: NDArray[np.integer[Any]],
    num_groups: int,
) -> NDArray[np.floating[Any]]:
    """Return a row of the largest weight of every group."""
    largest = np.zeros(num_groups)
    np.maximum.at(largest, group_index, weights)
    chosen = np.empty(num_groups, dtype=np.int64)
    heaviest = np.flatnonzero(weights == largest[group_index])
    chosen[group_index[heaviest]] = heaviest
    starts = np.cumsum([0, *map(len, arrays)])
    array_index = np.searchsorted(starts, chosen, side="right") - 1
    places = zip(array_index.tolist(), (chosen - starts[array_index]).tolist(), strict=True)
    return np.stack([arrays[index][row] for index, row in places])


def scaled_eigenvectors(
    rows: NDArray[np.floating[Any]], rank: int
) -> tuple[NDArray[np.floating[Any]], float]:
    """Return the largest eigenpairs of ``rows.T @ rows`` as vectors, and the trace of the rest.

    Parameters
    ----------
    rows : ndarray of float32 or float64, shape (n, dim)
    rank : int
        How many; fewer are returned where the matrix has fewer that are not zero.

    Returns
    -------
    vectors : ndarray, shape (rank, dim)
        ``sqrt(value) vector``, the largest value first. The sign is such that the number that is
        largest without its sign is positive, so that the same rows give the same vectors.
    trace : float
        At least 0.

    Notes
    -----
    By the smaller of the two matrices ``rows @ rows.T`` and ``rows.T @ rows``: an eigenvector u of
    the first with eigenvalue v gives ``rows.T @ u = sqrt(v) vector`` of the second. Only the pairs
    asked for are computed.
    """
    trace = float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))
    n, dim = rows.shape
    rank = min(rank, n, dim)
    if rank <= 0 or trace == 0:
        return np.zeros((0, dim), dtype=rows.dtype), trace
    size = min(n, dim)
    product = rows @ rows.T if n <= dim else outer_products([rows], np.float64)
    values, basis = linalg.eigh(
        product, subset_by_index=(size - rank, size - 1), overwrite_a=True, check_finite=False
    )
    kept = values > max(rounding(values[-1], size), float(np.finfo(rows.dtype).eps * values[-1]))
    values, basis = values[kept][::-1], basis[:, kept][:, ::-1]
    vectors = basis.T @ rows if n <= dim else basis.T * np.sqrt(values)[:, None]
    vectors = vectors.astype(rows.dtype, copy=False)
    largest = np.abs(vectors).argmax(axis=1)
    vectors *= np.sign(vectors[np.arange(len(vectors)), largest])[:, None]
    sketched = float(np.einsum("ij,ij->", vectors, vectors, dtype=np.float64))
    return vectors, max(trace - sketched, 0.0)


def gaussian(seed: int | Sequence[int], rows: int, columns: int) -> NDArray[np.float64]:
    """Return a matrix of standard normal numbers, up to rounding the same wherever it is drawn.

    Parameters
    ----------
    seed : int or sequence of int
    rows, columns : int

    Notes
    -----
    The bits of a bit generator are the same in all versions of NumPy; what ``Generator.normal``
    makes of them need not be.
    """
    bits = np.random.PCG64(seed).random_raw(rows * columns)
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(ndtri(uniform).reshape(rows, columns))


def add_to_diagonal(matrix: NDArray[np.float64], value: float) -> NDArray[np.float64]:
    """Add a multiple of the identity, in place."""
    matrix.flat[:: len(matrix) + 1] += value
    return matrix


def rounding(largest: float, dim: int) -> float:
    """Return the size up to which an eigenvalue may be zero but for rounding.

    ``dim * eps`` times the largest eigenvalue, as usual, but 10 eps at least, for small matrices.
    """
    return float(max(dim, 10) * np.finfo(np.float64).eps * largest)
