"""How a budget of bytes is spent: by a client on precision and rank, by all on a lift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

_CODINGS = (
    "means=int8,vectors=int8",
    "means=int8,vectors=int4",
    "means=int6,vectors=int4",
    "means=int4,vectors=int4",
)
"""From the finest to the coarsest."""

_TOO_FINE = "vectors=int8"
"""Worth it only where all vectors can be sent: twice as many in int4 tell more."""

_LIFTS = (8, 4)
"""Random features for one feature. Fewer than 4 lose as much of a feature as they gain."""

_FREEDOM = 1.5
"""Degrees of freedom for a random feature. With fewer, what a covariance of so many features would
gain is lost to its errors; with as many as features and no more it cannot even be inverted."""

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
    for coding in codings[:-1]:
        left = allowance - size(coding, 0)
        all_fit = size(coding, most) <= allowance
        if all_fit or (left >= allowance * _SHARE_OF_VECTORS and not coding.endswith(_TOO_FINE)):
            break
    else:
        coding = codings[-1]
    return coding, highest_rank(allowance, partial(size, coding), most)


def highest_rank(allowance: float, size: Callable[[int], int], most: int) -> int:
    """Return the highest rank from 0 to `most` whose bytes stay within an allowance."""
    fits, too_many = 0, most + 1
    step = max(1, size(1) - size(0))  # 0 where a short vector goes into what pads a message
    while too_many - fits > 1:  # a vector more is never fewer bytes
        guess = fits + max(1, int((allowance - size(fits)) / step))
        guess = min(guess, too_many - 1)
        if size(guess) <= allowance:
            fits = guess
        else:
            too_many = guess
    return fits


def plan_lift(
    dim: int,
    clients: Iterable[tuple[int, int]],
    num_classes: int,
    rank: Callable[[int, int, int], int | None],
) -> int:
    """Return to how many random features all clients lift theirs; 0 where that does not pay.

    It pays where the budget lets the server know the covariance of the lifted features: M means of
    C classes have ``M - C`` degrees of freedom, and every vector of a sketch is one more. Only
    numbers that are public go into it, so that all clients can be told before anybody sends.

    Parameters
    ----------
    dim : int
        The length of a feature before it is lifted, d.
    clients : iterable of (int, int)
        How many classes and how many samples each client has.
    num_classes : int
        How many classes all clients have together, C.
    rank : callable
        From the classes and samples of a client and the length of its lifted features to the
        vectors that it would send; None if the means alone are above its budget.

    Returns
    -------
    int
        0, or 8 or 4 times d.

    Examples
    --------
    >>> plan_lift(10, [(5, 100)] * 20, 10, lambda classes, samples, dim: 3)
    80
    >>> plan_lift(10, [(5, 100)] * 10, 10, lambda classes, samples, dim: 3)
    40
    >>> plan_lift(10, [(5, 100)] * 5, 10, lambda classes, samples, dim: 3)
    0
    """
    alike = Counter(clients)
    means = sum(number * classes for (classes, _), number in alike.items())
    for factor in _LIFTS:
        lifted = factor * dim
        ranks = {client: rank(*client, lifted) for client in alike}
        if None in ranks.values():
            continue
        vectors = sum(number * (ranks[client] or 0) for client, number in alike.items())
        if means - num_classes + vectors >= _FREEDOM * lifted:
            return lifted
    return 0
