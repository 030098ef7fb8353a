"""Four bytes a number, as the paper counts them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.codings.base import Coding, Parts
from fedcof.errors import SummaryError


class Float32(Coding):
    """Four bytes a number, as the paper counts them."""

    name = "float32"

    def encode(self, array: NDArray[np.floating[Any]], *, centred: bool = False) -> Parts:
        """Round to float32."""
        return {"": as_float32(array)}

    def decode(self, parts: Parts) -> NDArray[np.floating[Any]]:
        """Return the array as it came."""
        if set(parts) != {""} or parts[""].dtype != np.float32:
            found = {f"{array.dtype} {suffix}".strip() for suffix, array in parts.items()}
            raise SummaryError("dtype", f"came in {', '.join(sorted(found))}, expected float32")
        return parts[""]

    def layout(self, shape: tuple[int, ...], *, centred: bool = False) -> Parts:
        """Return zeros of the shape that share one number."""
        return {"": np.broadcast_to(np.float32(0), shape)}


def as_float32(array: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Round to float32.

    Raises
    ------
    OverflowError
        If a value is too large for it.
    """
    try:
        with np.errstate(over="raise"):
            return array.astype(np.float32)
    except FloatingPointError:
        raise OverflowError("a value too large for float32, in which it is sent") from None
