"""How a client spends a budget of bytes: on the precision of its means, and on its rank."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

_CODINGS = (
    "means=int8,vectors=int8",
    "means=int8,vectors=int4",
    "means=int6,vectors=int4",
    "means=int4,vectors=int4",
)
"""From the finest to the coarsest."""

_SHARE_OF_VECTORS = 1 / 3
"""Of the bytes. Means cost the same whatever they tell; the first vectors tell most. Where both are
sent, means in 8 bits are worth it only if this much is left for vectors."""


def spend(
    allowance: float,
    size: Callable[[str, int], int],
    most: int,
    codings: tuple[str, ...] = _CODINGS,
) -> tuple[str, int]:
    """Return the coding and the rank with which a client's summary stays within an allowance.

    The finest coding at which a third of the bytes is left for vectors, or all vectors that there
    are can be sent; the coarsest if there is none. With it the highest rank within the allowance,
    0 if nothing is.

    Parameters
    ----------
    allowance : float
        Bytes on the wire.
    size : callable
        From a coding and a rank to the bytes on the wire.
    most : int
        The highest rank that there is.
    codings : tuple of str
        From the finest to the coarsest.

    Examples
    --------
    >>> def size(coding, rank):
    ...     return {"fine": 800, "coarse": 400}[coding] + 100 * rank
    >>> spend(1000, size, 9, ("fine", "coarse"))
    ('coarse', 6)
    >>> spend(1200, size, 9, ("fine", "coarse"))
    ('fine', 4)
    >>> spend(300, size, 9, ("fine", "coarse"))
    ('coarse', 0)
    """
    for coding in codings:
        rank = highest_rank(allowance, partial(size, coding), most)
        left = allowance - size(coding, 0)
        if coding == codings[-1] or (left >= 0 and rank == most):
            break
        if left >= allowance * _SHARE_OF_VECTORS and not coding.endswith("vectors=int8"):
            break
    return coding, rank


def highest_rank(allowance: float, size: Callable[[int], int], most: int) -> int:
    """Return the highest rank from 0 to `most` whose bytes stay within an allowance."""
    low, high = 0, most
    while low < high:  # a vector more is never fewer bytes
        middle = (low + high + 1) // 2
        if size(middle) <= allowance:
            low = middle
        else:
            high = middle - 1
    return low
