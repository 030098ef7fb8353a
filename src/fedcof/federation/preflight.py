"""Whether a site's machine can be a SuperNode, tried before Flower is started there.

Flower turns a SuperNode away whose clock is more than 5 s ahead of the SuperLink's, or 305 s
behind, without a word about the clock. Here the SuperLink's ``Date`` header tells.
"""

from __future__ import annotations

import platform
import ssl
import time
from collections.abc import Callable
from datetime import timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib import metadata
from pathlib import Path

from fedcof import __version__
from fedcof.errors import reason_of

AHEAD, BEHIND = 5.0, 300.0
"""Seconds that a site's clock may be ahead of the SuperLink's, and behind."""

_TIMEOUT = 20.0
_NOT_YET_VALID, _EXPIRED = 9, 10


def versions() -> str:
    """Return the versions that this machine has, for people.

    Raises
    ------
    ModuleNotFoundError
        If Flower is not installed.
    """
    return (
        f"fedcof {__version__}, flwr {metadata.version('flwr')}, Python {platform.python_version()}"
    )


def superlink_faults(
    address: str, certificates: Path | None, *, now: Callable[[], float] = time.time
) -> list[str]:
    """Return what keeps this machine from the SuperLink; empty if nothing.

    Parameters
    ----------
    address : str
        As ``flower-supernode --superlink`` takes it, HOST:PORT.
    certificates : path, optional
        As ``--root-certificates``; None where the SuperLink has no TLS (``--insecure``).
    now : callable
        This machine's clock.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        return [f"{address} is no address: expected HOST:PORT"]
    try:
        server_time = _server_time(host, int(port), _context(certificates))
    except ssl.SSLCertVerificationError as error:
        return [_certificate_fault(host, int(port), error, now)]
    except ssl.SSLError as error:
        return [f"{address} speaks no TLS ({error.reason}); see --insecure of flower-supernode"]
    except (OSError, HTTPException) as error:
        return [
            f"{address} cannot be reached: {reason_of(error)}; look whether the SuperLink runs "
            "there, and whether a firewall is between"
        ]
    return _clock_faults(server_time, now())


def _context(certificates: Path | None) -> ssl.SSLContext | None:
    return None if certificates is None else ssl.create_default_context(cafile=certificates)


def _server_time(host: str, port: int, context: ssl.SSLContext | None) -> float:
    """Return the time in a server's answer, whatever the answer is; 0 where there is none."""
    connection = (
        HTTPConnection(host, port, timeout=_TIMEOUT)
        if context is None
        else HTTPSConnection(host, port, timeout=_TIMEOUT, context=context)
    )
    try:
        connection.request("GET", "/")
        date = connection.getresponse().getheader("Date", "")
    finally:
        connection.close()
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return 0.0


def _clock_faults(server_time: float, own: float) -> list[str]:
    if not server_time:
        return []
    ahead = own - server_time - 1.0  # the header has whole seconds
    if ahead > AHEAD:
        return [_clock(ahead, "ahead of")]
    if -ahead > BEHIND:
        return [_clock(-ahead, "behind")]
    return []


def _clock(seconds: float, where: str) -> str:
    return (
        f"this machine's clock is {timedelta(seconds=round(seconds))} {where} the SuperLink's: "
        "Flower turns such a SuperNode away. Set the clock, or let NTP do it"
    )


def _certificate_fault(
    host: str, port: int, error: ssl.SSLCertVerificationError, now: Callable[[], float]
) -> str:
    """Return what is wrong with the certificate, which may be this machine's clock."""
    if error.verify_code in (_NOT_YET_VALID, _EXPIRED):
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        try:
            # Nothing but the time is taken from a server that cannot be trusted.
            clock = _clock_faults(_server_time(host, port, unchecked), now())
        except (OSError, HTTPException):
            clock = []
        if clock:
            return f"{clock[0]}. By it the certificate {_WHEN[error.verify_code]}"
    return (
        f"the certificate of {host}:{port} is not trusted ({error.verify_message}): name the "
        "SuperLink's certificate, or that of its CA, by --root-certificates"
    )


_WHEN = {_NOT_YET_VALID: "is not valid yet", _EXPIRED: "has expired"}
