"""Two bytes a number: float16 over the scale of its row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcof.codings.scaled_rows import ScaledRows
from fedcof.errors import SummaryError

_SMALLEST_EXPONENT = -126
"""Of a float32 that is not subnormal."""


class Float16(ScaledRows):
    """Two bytes a number; the scale is a power of two, so that no row is too large or too small."""

    name = "float16"

    def row_bytes(self, length: int) -> int:
        """Return two a value."""
        return 2 * length

    def scales(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the power of two with which the largest value is between 1 and 2."""
        _, exponents = np.frexp(np.abs(rows).max(axis=1))
        scales = np.ldexp(np.float32(1), np.maximum(exponents - 1, _SMALLEST_EXPONENT))
        return np.where(rows.any(axis=1), scales, np.float32(0))

    def pack(self, rows: NDArray[np.float32], scales: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Round to float16."""
        scaled = rows / np.where(scales > 0, scales, np.float32(1))
        return scaled.astype("<f2", order="C").view(np.uint8)

    def unpack(self, codes: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the values, which must be finite."""
        if codes.shape[1] % 2:
            raise SummaryError("shape", f"has rows of {codes.shape[1]} bytes, two are a value")
        values = np.ascontiguousarray(codes).view("<f2").astype(np.float32)
        if not np.isfinite(values).all():
            raise SummaryError("non-finite", "holds NaN or infinity")
        return values
