"""Privacy loss and exact noise, both of OpenDP: the only place that knows it.

Losses are in rho of zero-concentrated differential privacy (Bun and Steinke, 2016), which adds up
over releases, and are told as (epsilon, delta) in the end.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import FedCOFError, SettingError
from fedcof.installation import install_line

_STEPS = 30
"""Halvings of an interval: rho is found to a billionth."""

_LARGEST_EPSILON = 100.0
"""Above it nothing is guaranteed to speak of: what an adversary thought likely once in e^100."""


@cache
def _opendp() -> Any:
    try:
        import opendp.prelude
    except ImportError:
        raise FedCOFError(f"differential privacy needs OpenDP: {install_line('privacy')}") from None
    opendp.prelude.enable_features("contrib")
    return opendp.prelude


@cache
def _losses() -> Any:
    """Return OpenDP's map from a sensitivity to the profile of a Gaussian with deviation 1."""
    dp = _opendp()
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="f64")
    return dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=1.0))


@lru_cache(maxsize=1024)
def epsilon_of(rho: float, delta: float) -> float:
    """Return the epsilon of rho-zCDP at a delta.

    Examples
    --------
    >>> round(epsilon_of(0.5, 1e-5), 2)
    4.73
    """
    # A Gaussian of deviation 1 and sensitivity s loses rho = s^2 / 2.
    return float(_losses().map(float(np.sqrt(2 * rho))).epsilon(delta)) if rho > 0 else 0.0


@lru_cache(maxsize=1024)
def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest rho whose epsilon at a delta is not above the one asked for.

    Raises
    ------
    SettingError
        If epsilon is not positive or above 100, or delta is not between 0 and 1.
    """
    if not 0 < epsilon <= _LARGEST_EPSILON:
        raise SettingError(
            "epsilon", f"must be above 0 and at most {_LARGEST_EPSILON:g}, it is {epsilon}"
        )
    if not 0 < delta < 1:
        raise SettingError("delta", f"must be between 0 and 1, it is {delta}")
    low, high = 0.0, 1.0
    while epsilon_of(high, delta) <= epsilon:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if epsilon_of(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def discrete_gaussian(scale: float, size: int) -> NDArray[np.int64]:
    """Return exact draws of the discrete Gaussian N_Z(0, scale^2), shape (size,).

    Parameters
    ----------
    scale : float
        The deviation; at most 2**55, so that no draw leaves 64 bits.
    size : int

    Notes
    -----
    By the sampler of Canonne, Kamath and Steinke (2020) in exact arithmetic, with bits of a
    cryptographically secure generator. There is no seed.

    Examples
    --------
    >>> discrete_gaussian(3.0, 4).shape
    (4,)
    """
    if not 0 < scale <= 2.0**55:
        raise SettingError("scale", f"of noise must be from 0 to 2**55, it is {scale}")
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    draw = dp.m.make_gaussian(*space, scale=scale)
    return np.array(draw([0] * size), dtype=np.int64)
