"""Shamir's sharing of a secret of 32 bytes: t shares give it, fewer tell nothing of it.

A secret is the value at 0 of a random polynomial of degree t - 1 over the integers modulo the prime
``2^256 + 297``, a share its value at the holder's number.
"""

from __future__ import annotations

import math
import random as simulation
from collections.abc import Callable, Iterable, Mapping

SECRET_BYTES = 32
SHARE_BYTES = 33
PRIME = 2**256 + 297

_TRIES = 200
"""Sets of shares that are tried where some are false: with a third of the shares to spare and one
that is false, the chance that all hold it is below 1e-35."""


def split(
    secret: bytes, holders: Iterable[int], threshold: int, random: Callable[[int], bytes]
) -> list[bytes]:
    """Return a share for every holder.

    Parameters
    ----------
    secret : bytes, shape (32,)
    holders : iterable of int
        Their numbers, different and above 0.
    threshold : int
        How many shares give the secret, t.
    random : callable
        Returns as many random bytes as it is asked for.

    Examples
    --------
    >>> import os
    >>> shares = split(bytes(range(32)), [1, 2, 3], 2, os.urandom)
    >>> join({1: shares[0], 3: shares[2]}) == bytes(range(32))
    True
    """
    # 128 bits more than the prime has leave each coefficient uniform but for 2^-128.
    coefficients = [int.from_bytes(random(49)) % PRIME for _ in range(threshold - 1)]
    coefficients.append(int.from_bytes(secret))
    return [_value(coefficients, holder).to_bytes(SHARE_BYTES) for holder in holders]


def _value(coefficients: Iterable[int], place: int) -> int:
    """Return a polynomial's value, its highest coefficient first."""
    value = 0
    for coefficient in coefficients:
        value = (value * place + coefficient) % PRIME
    return value


def join(shares: Mapping[int, bytes]) -> bytes | None:
    """Return the secret; None where the shares give none of 32 bytes, so that some are false."""
    value = _through(shares, 0)
    return value.to_bytes(SECRET_BYTES) if value < 2 ** (8 * SECRET_BYTES) else None


def _through(shares: Mapping[int, bytes], place: int) -> int:
    """Return the value at a place of the polynomial through all shares."""
    value = 0
    for holder, share in shares.items():
        others = [other for other in shares if other != holder]
        numerator = math.prod(other - place for other in others) % PRIME
        denominator = math.prod(other - holder for other in others) % PRIME
        value += int.from_bytes(share) * numerator * pow(denominator, -1, PRIME)
    return value % PRIME


def recover(
    shares: Mapping[int, bytes], threshold: int, is_secret: Callable[[bytes], bool]
) -> tuple[bytes | None, list[int]]:
    """Return the secret, also where a few shares are false, and whose shares are false.

    Parameters
    ----------
    shares : mapping of int to bytes
        At least as many as the threshold, by the holders' numbers.
    threshold : int
    is_secret : callable
        Tells the secret from anything else.

    Returns
    -------
    secret : bytes or None
        None where too many shares are false.
    liars : list of int
        The holders whose shares do not lie on the secret's polynomial.
    """
    holders = list(shares)
    first = {holder: shares[holder] for holder in holders[:threshold]}
    secret = join(first)
    if secret is not None and is_secret(secret):
        return secret, []
    draw = simulation.Random(0)
    for _ in range(_TRIES if len(holders) > threshold else 0):
        part = {holder: shares[holder] for holder in draw.sample(holders, threshold)}
        secret = join(part)
        if secret is not None and is_secret(secret):
            values = {holder: _through(part, holder) for holder in holders if holder not in part}
            return secret, [h for h, value in values.items() if int.from_bytes(shares[h]) != value]
    return None, []
