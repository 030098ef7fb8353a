"""Features and labels as they come from a user: checked, coded, and summed in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fedcof.errors import SummaryError
from fedcof.summaries.base import as_labels, check_finite

_BLOCK_BYTES = 4 << 20
"""Size of a float64 block: large enough for NumPy, small enough for the cache."""


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
    if array.ndim != 2 or array.shape[1] == 0:
        raise SummaryError("shape", f"features must be of shape (n, dim), these have {array.shape}")
    if array.dtype not in (np.float16, np.float32, np.float64):
        raise SummaryError("dtype", f"features must be float16, 32 or 64, these are {array.dtype}")
    if len(array) != len(coded):
        raise SummaryError("labels", f"{len(array)} features but {len(coded)} labels")
    if len(array) == 0:
        raise SummaryError("empty", "no samples: there is nothing to summarize")
    check_finite("features", array)
    return array, coded


def blocks(features: NDArray[np.floating[Any]]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield the features in float64, a block of rows at a time."""
    step = max(1, _BLOCK_BYTES // (8 * features.shape[1]))
    for start in range(0, len(features), step):
        rows = slice(start, min(start + step, len(features)))
        yield rows, features[rows].astype(np.float64)


def sum_by_group(
    features: NDArray[np.floating[Any]], group_index: NDArray[np.integer[Any]], num_groups: int
) -> NDArray[np.float64]:
    """Return the sum of the features in every group, shape (num_groups, dim), in float64."""
    sums = np.zeros((num_groups, features.shape[1]))
    for rows, block in blocks(features):
        sums += indicator(group_index[rows], num_groups) @ block
    return sums


def indicator(
    group_index: NDArray[np.integer[Any]],
    num_groups: int,
    weights: NDArray[np.float64] | None = None,
) -> sparse.csc_array:
    """Return the (num_groups, rows) matrix that sums rows by group, each times its weight."""
    rows = len(group_index)
    data = np.ones(rows) if weights is None else weights
    return sparse.csc_array((data, group_index, np.arange(rows + 1)), shape=(num_groups, rows))
