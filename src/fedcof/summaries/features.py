"""Features and labels as they come from a user: checked, coded, and summed in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from fedcof.errors import SummaryError
from fedcof.summaries.base import as_labels, check_finite

_BLOCK_BYTES = 2 << 20
"""Size of a block: large enough for NumPy, small enough for the cache."""


def as_features(
    features: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[np.floating[Any]], NDArray[Any]]:
    """Check features of shape (n, dim) and labels of shape (n,) and return them as arrays.

    Raises
    ------
    SummaryError
        If the shapes do not fit, there is no sample, the types are not floats and labels, or a
        feature is not finite.
    """
    array, coded = np.asarray(features), as_labels(labels)
    if array.dtype.kind in "iu":
        array = array.astype(np.float64)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.ndim != 2 or array.shape[1] == 0:
        raise SummaryError("shape", f"features must be of shape (n, dim), these have {array.shape}")
    if array.dtype not in (np.float16, np.float32, np.float64):
        raise SummaryError("dtype", f"features must be numbers, these are {array.dtype}")
    if len(array) != len(coded):
        raise SummaryError("labels", f"{len(array)} features but {len(coded)} labels")
    if len(array) == 0:
        raise SummaryError("empty", "no samples: there is nothing to summarize")
    check_finite("features", array)
    return array, coded


def blocks(
    arrays: Sequence[NDArray[np.floating[Any]]], dtype: DTypeLike, *, at_least: int = 1
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield the rows of several arrays, one after the other, in blocks.

    The blocks are the same however the rows are dealt to the arrays. A block is a copy, and may be
    changed, but lasts only until the next one: they share their memory. `at_least` is the number of
    rows below which what is done with a block would not be worth it.
    """
    dim = arrays[0].shape[1]
    size = max(1, _BLOCK_BYTES // (np.dtype(dtype).itemsize * dim), at_least)
    size = min(size, max(1, sum(map(len, arrays))))
    memory = np.empty((size, dim), dtype)
    pieces: list[NDArray[Any]] = []
    start, missing = 0, size
    for array in arrays:
        if len(array) < missing:  # nothing to cut: thousands of clients with a few rows each
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
    arrays: Sequence[NDArray[np.floating[Any]]],
    group_index: NDArray[np.integer[Any]],
    num_groups: int,
    weights: NDArray[Any] | None = None,
) -> NDArray[np.float64]:
    """Return the weighted sum of the rows in every group, shape (num_groups, dim), in float64."""
    weights = np.ones(len(group_index)) if weights is None else weights.astype(np.float64)
    sums = np.zeros((num_groups, arrays[0].shape[1]))
    for rows, block in blocks(arrays, np.float64, at_least=2 * num_groups):
        sums += add_up(block, weights[rows], group_index[rows], num_groups)
    return sums


def add_up(
    block: NDArray[np.floating[Any]],
    weights: NDArray[np.floating[Any]],
    group_index: NDArray[np.integer[Any]],
    num_groups: int,
) -> NDArray[np.floating[Any]]:
    """Return the weighted sum of the rows of one block in every group, in the type of the block."""
    entries = (weights, group_index, np.arange(len(block) + 1))
    return np.asarray(sparse.csc_array(entries, shape=(num_groups, len(block))) @ block)
