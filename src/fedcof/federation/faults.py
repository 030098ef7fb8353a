"""What went wrong at a SuperNode, in words that hold no data of its clients."""

from __future__ import annotations

from flwr.app import Error

from fedcof.federation.asking import Fault
from fedcof.federation.records import checked_code

CANNOT = 100
"""Flower's error code for a fault of fedcof's ClientApp, whose reason holds no text of an error."""

_OFFLINE = 5

_FAULTS = {
    1: "its ClientApp could not be loaded",
    2: "its ClientApp raised an exception",
    3: "its answer is not available any more",
    4: "its answer is not available any more",
    _OFFLINE: "it went offline",
    8: "its ClientApp died",
}


def fault_of(error: Error) -> Fault:
    """Return what an error says, without the text of an exception, which may hold data."""
    if error.code == CANNOT:
        return Fault(f"it cannot: {checked_code(error.reason)}")
    return Fault(_FAULTS.get(error.code, f"error {error.code}"), gone=error.code == _OFFLINE)
