"""int8, int6 and int4: integers times the scale of their row."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcof.codings.scaled_rows import ScaledRows, as_bfloat16
from fedcof.errors import SummaryError

_CLIPPED_AT = np.linspace(1.0, 0.3, 15, dtype=np.float32)
"""Where values are clipped, as shares of the largest of the row; the best is taken."""

_NO_VALUE = 0
"""The half of a byte that stands for no value, at the end of rows of odd length."""


class Integers(ScaledRows):
    """Codes from ``-largest`` to ``largest``, with the scale that has the least squared error.

    A few large values would make the steps coarse for all others. So the scale is the best of
    several, at which the largest values are clipped.
    """

    keeps_small_eigenvalues = False
    largest: ClassVar[int]
    """The largest code."""

    def scales(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scale of the least squared error of every row."""
        peaks = np.abs(rows).max(axis=1)
        peaks_or_1 = np.where(peaks > 0, peaks, np.float32(1))
        relative = rows / peaks_or_1[:, None]
        best = np.zeros_like(peaks)
        least = np.full_like(peaks, np.inf)
        for share in _CLIPPED_AT:
            scales = as_bfloat16(share * peaks / np.float32(self.largest))
            steps = (scales / peaks_or_1)[:, None]
            errors = self._codes(relative, steps) * steps - relative
            squared = np.einsum("ij,ij->i", errors, errors)
            best = np.where(squared < least, scales, best)
            least = np.minimum(squared, least)
        return np.asarray(best)

    def _codes(self, rows: NDArray[Any], scales: NDArray[Any]) -> NDArray[np.float32]:
        """Return the nearest codes of rows at scales of shape (n, 1), as float32."""
        codes = np.rint(rows / np.where(scales > 0, scales, np.float32(np.inf)))
        return np.asarray(np.clip(codes, -self.largest, self.largest), dtype=np.float32)

    def _check(self, codes: NDArray[np.int8]) -> None:
        """Check codes that arrived, of which the smallest is none."""
        if (codes < -self.largest).any():
            raise SummaryError("range", f"has codes of {self.name} below {-self.largest}")


class Int8(Integers):
    """One byte a number, from -127 to 127 times the scale."""

    name = "int8"
    largest = 127
    centre_rows = 1
    least_centred = 8

    def row_bytes(self, length: int) -> int:
        """Return one a value."""
        return length

    def pack(self, rows: NDArray[np.float32], scales: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return the codes in two's complement."""
        return self._codes(rows, scales).astype(np.int8).view(np.uint8)

    def unpack(self, codes: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the codes; -128 is none."""
        values = codes.view(np.int8)
        self._check(values)
        return values.astype(np.float32)


class Int4(Integers):
    """Half a byte a number, from -7 to 7 times the scale.

    A byte holds two codes, each plus 8, the first in its lower half. In a row of odd length the
    last upper half is 0.
    """

    name = "int4"
    largest = 7
    centre_rows = 2
    least_centred = 2

    def row_bytes(self, length: int) -> int:
        """Return one for two values."""
        return -(-length // 2)

    def pack(self, rows: NDArray[np.float32], scales: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return the codes, two a byte."""
        halves = (self._codes(rows, scales) + np.float32(8)).astype(np.uint8)
        if halves.shape[1] % 2:
            halves = np.pad(halves, ((0, 0), (0, 1)), constant_values=_NO_VALUE)
        return halves[:, ::2] | halves[:, 1::2] << np.uint8(4)

    def unpack(self, codes: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the codes."""
        halves = np.stack([codes & np.uint8(15), codes >> np.uint8(4)], axis=2)
        values = halves.reshape(len(codes), -1).astype(np.int8) - np.int8(8)
        if len(values) and (halves[:, -1, 1] == _NO_VALUE).all():
            values = values[:, :-1]
        self._check(values)
        return values.astype(np.float32)


class Int6(Integers):
    """Three quarters of a byte a number, from -31 to 31 times the scale.

    Three bytes hold four codes, each plus 32, the first in the highest bits. The bits after the
    last code are 0.
    """

    name = "int6"
    largest = 31
    centre_rows = 1
    least_centred = 2

    def row_bytes(self, length: int) -> int:
        """Return three for four values."""
        return -(-6 * length // 8)

    def pack(self, rows: NDArray[np.float32], scales: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return the codes, four in three bytes."""
        codes = (self._codes(rows, scales) + np.float32(32)).astype(np.uint32)
        codes = np.pad(codes, ((0, 0), (0, -codes.shape[1] % 4)), constant_values=_NO_VALUE)
        words = (codes.reshape(len(codes), -1, 4) << np.array([18, 12, 6, 0], np.uint32)).sum(
            axis=2, dtype=np.uint32
        )
        packed = np.stack([words >> np.uint32(16), words >> np.uint32(8), words], axis=2)
        return packed.astype(np.uint8).reshape(len(codes), -1)[:, : self.row_bytes(rows.shape[1])]

    def unpack(self, codes: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the codes."""
        held = codes.shape[1] * 8 // 6
        filled = np.pad(codes, ((0, 0), (0, -codes.shape[1] % 3))).astype(np.uint32)
        high, middle, low = np.moveaxis(filled.reshape(len(codes), -1, 3), 2, 0)
        words = high << np.uint32(16) | middle << np.uint32(8) | low
        sextets = words[:, :, None] >> np.array([18, 12, 6, 0], np.uint32) & np.uint32(63)
        values = sextets.reshape(len(codes), -1).astype(np.int8)
        if (values[:, held:] != _NO_VALUE).any():
            raise SummaryError("range", f"has bits of {self.name} after the last code")
        values = values[:, :held]
        if held % 4 == 0 and len(values) and (values[:, -1] == _NO_VALUE).all():
            values = values[:, :-1]
        values = values - np.int8(32)
        self._check(values)
        return values.astype(np.float32)
