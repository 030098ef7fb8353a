"""Features and labels as a client gives them: checked and as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import SummaryError
from fedcof.labels import as_labels, is_missing
from fedcof.summaries.base import check_finite

Seed = np.random.Generator | int | None
"""What a client's random sets are drawn from."""

Seeds = Callable[[int], Seed]
"""That of each of several clients, by its place; called where something is drawn."""


_FLOATS = "efd"
"""NumPy's letters for float16, float32 and float64."""


class Samples(NamedTuple):
    """What one client summarizes, as `check_samples` returns it.

    Parameters
    ----------
    features : ndarray of float16, float32 or float64, shape (n, dim)
    labels : ndarray of int64 or str, shape (n,)
    client_id : str, default ""
    origin : mapping of str to str, default {}
        What made the features, as the summary is to say it.
    """

    features: NDArray[np.floating[Any]]
    labels: NDArray[Any]
    client_id: str = ""
    origin: Mapping[str, str] = MappingProxyType({})


def check_samples(
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
    if array.dtype.char not in _FLOATS or not array.dtype.isnative:
        array = _floats(array)
    if array.ndim != 2 or array.shape[1] == 0:
        raise SummaryError("shape", f"features must be of shape (n, dim), these have {array.shape}")
    if array.dtype.char not in _FLOATS:
        raise SummaryError("dtype", f"features must be numbers, these are {array.dtype}")
    if len(array) != len(coded):
        raise SummaryError("labels", f"{len(array)} features but {len(coded)} labels")
    if len(array) == 0:
        raise SummaryError("empty", "no samples: there is nothing to summarize")
    check_finite("features", array)
    return array, coded


def _floats(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers of any type as floats in the order of this machine's bytes."""
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    if array.dtype.kind in "biuO":
        array = _numbers(array)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _numbers(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return integers, booleans, and a frame's columns of several types, as float64."""
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        missing = np.argwhere([[is_missing(v) for v in np.atleast_1d(row)] for row in array])
        where = f" (row {missing[0][0]} has no value)" if len(missing) else ""
        raise SummaryError("dtype", f"features must be numbers: {error}{where}") from None
