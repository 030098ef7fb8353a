"""Class means that no minority of the clients can move far.

A plain mean is moved as far as one likes by one client; so is a scatter. Here every mean that a
client sends counts for as many samples as can be believed of it:

1. A client counts for no more samples than `_HEAVIEST` times those of the usual client.
2. The centre of a class is the geometric median of its means, each weighted by the root of its
   samples. It stays where the honest means are as long as they have more than half of the weight:
   its breakdown point is 1/2 in every class.
3. An honest mean of n samples lies at a squared distance of about ``s / n`` from it, where s is the
   trace of the covariance within a class. So ``q = n |mu - centre|^2`` is about s at all honest
   clients; s is taken to be the median of q, whose breakdown point is 1/2 of all means. A mean with
   a larger q counts for ``_LIMIT s / q`` as many samples. The farther it lies the less it moves the
   class, and at any distance it adds to the scatter what `_LIMIT` honest means add at most.

Where all clients are honest and alike nearly every weight is 1, and the head is that of the plain
sums but for the first step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcof.numerics import GroupSums, squared_distances

_HEAVIEST = 4.0
"""How many times as many samples as the usual client a client counts for at most."""

_LIMIT = 3.0
"""From how many times the usual squared distance on a mean counts less."""

_STEPS = 50
"""Steps towards the geometric median; each is one pass over the means."""


def trusted_counts(
    means: NDArray[np.floating],
    counts: NDArray[np.int64] | NDArray[np.float64],
    class_index: NDArray[np.int64],
    client_index: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return for how many samples each mean counts.

    Parameters
    ----------
    means : ndarray of float, shape (rows, dim)
    counts : ndarray of int64, shape (rows,)
        The samples that its client claims for each.
    class_index, client_index : ndarray of int64, shape (rows,)
        The class and the client of each, from 0.

    Returns
    -------
    ndarray of float64, shape (rows,)
        Above 0 and at most `counts`.
    """
    totals = np.bincount(client_index, counts)
    believed = counts * np.minimum(1, _HEAVIEST * np.median(totals) / totals)[client_index]
    centres = geometric_medians(means, np.sqrt(believed), class_index)
    squares = believed * squared_distances([means], class_index, centres)
    several = np.bincount(class_index)[class_index] > 2  # of two means, the centre is one
    usual = float(np.median(squares[several])) if several.any() else np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(squares > 0, np.minimum(1, _LIMIT * usual / squares), 1)
    return np.maximum(believed * weights, np.finfo(np.float64).tiny)


def geometric_medians(
    means: NDArray[np.floating], weights: NDArray[np.float64], class_index: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the point of every class with the least weighted sum of distances to its means.

    By Weiszfeld's iteration from the median of every coordinate.

    Parameters
    ----------
    means : ndarray of float, shape (rows, dim)
    weights : ndarray of float64, shape (rows,)
    class_index : ndarray of int64, shape (rows,)

    Returns
    -------
    ndarray of float64, shape (classes, dim)

    Examples
    --------
    >>> three = np.array([[0.0, 0.0], [0.0, 0.1], [1000.0, 0.0]])
    >>> geometric_medians(three, np.ones(3), np.zeros(3, np.int64)).round(2)
    array([[0.03, 0.05]])
    """
    order = np.argsort(class_index, kind="stable")
    starts = np.flatnonzero(np.diff(class_index[order], prepend=-1))
    centres = np.stack(
        [np.median(means[rows], axis=0) for rows in np.split(order, starts[1:])]
    ).astype(np.float64)
    rounding = 1e-9 * max(float(means.max()), -float(means.min())) or 1.0
    for _ in range(_STEPS):
        distance = np.sqrt(squared_distances([means], class_index, centres))
        # A mean at the centre itself would weigh without end.
        near = max(1e-3 * float(np.median(distance)), rounding)
        pull = weights / np.maximum(distance, near)
        moved = GroupSums.of([means], class_index, len(centres), pull).means
        done = np.abs(moved - centres).max() <= 1e-6 * np.abs(centres).max()
        centres = moved
        if done:
            break
    return centres
