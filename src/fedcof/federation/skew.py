"""What is wrong with a site's clock or version, in words."""

from __future__ import annotations

from datetime import timedelta

from fedcof import __version__

CLOCK_TOLERANCE = 5.0
"""Seconds that Flower lets a site's clock be ahead of the SuperLink's; it may be 305 behind."""


def clock_fault(clock: float, asked: float, received: float) -> str:
    """Return what is wrong with the clock of a site that answered; empty if nothing.

    Parameters
    ----------
    clock : float
        The site's time when it answered, in seconds since 1970; 0 where it does not say.
    asked, received : float
        The server's times when it asked and when it had the answer.

    Examples
    --------
    >>> clock_fault(clock=4600.0, asked=1000.0, received=1010.0)
    'its clock is 0:59:50 ahead of the server'
    >>> clock_fault(clock=1004.0, asked=1000.0, received=1010.0)
    ''
    """
    ahead, behind = clock - received, asked - clock
    if not clock or max(ahead, behind) <= CLOCK_TOLERANCE:
        return ""
    seconds = min(max(ahead, behind), 1e9)  # a site may say any number
    by = timedelta(seconds=round(seconds))
    return f"its clock is {by} {'ahead of' if ahead > 0 else 'behind'} the server"


def version_fault(version: str, *, at: str = "it") -> str:
    """Return what is wrong with the version of fedcof at a site, or `at` the server; else nothing.

    Versions that differ in more than their last number do not read each other's records.

    Examples
    --------
    >>> version_fault("0.1.9")  # doctest: +ELLIPSIS
    'it has fedcof 0.1.9, but ... is here: install the same version at both'
    """
    if _minor(version) == _minor(__version__):
        return ""
    has = f"has fedcof {version}" if version else "does not say its version of fedcof"
    return f"{at} {has}, but {__version__} is here: install the same version at both"


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
