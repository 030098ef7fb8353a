"""Rows with a scale each: what float16, int8, int6 and int4 have in common.

A row travels as bytes: the scale in 2, then the codes of its values over the scale. The scale is a
bfloat16, the upper half of a float32: it has the range of a float32, and its product with a code of
8 bits is exact, so what was decoded is coded again without a loss.

Rows that are alike travel as a centre and differences. The centre is the first rows of the same
array: the mean of the rows, then what its coding has left of it, as many as the coding says.

An array with one axis, a number a row or a client, has no rows to scale and travels in float32; so
does an empty one.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcof.codings.base import Coding, Parts
from fedcof.codings.float32 import Float32, as_float32
from fedcof.errors import SummaryError

_SCALE_BYTES = 2
_CENTRED = ".centred"
_FLOAT32 = Float32()
_LARGEST = 2.0**125
"""So that no difference from a centre, and no sum with it, is above the largest float32."""


class ScaledRows(Coding):
    """A coding by rows; a subclass says how a row over its scale becomes bytes."""

    centre_rows: ClassVar[int] = 0
    """Rows that a common centre takes; 0 where it gains nothing."""
    least_centred: ClassVar[int] = 0
    """A centre is taken for so many rows or more; for fewer it costs more than it gains."""

    @abstractmethod
    def row_bytes(self, length: int) -> int:
        """Return how many bytes the codes of a row of so many values take."""

    @abstractmethod
    def scales(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scale of every row (n, length), a bfloat16; 0 for zeros."""

    @abstractmethod
    def pack(self, rows: NDArray[np.float32], scales: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return the codes of rows at scales of shape (n, 1), shape (n, row_bytes)."""

    @abstractmethod
    def unpack(self, codes: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the rows over their scales, shape (n, length).

        Raises
        ------
        SummaryError
            If a code is none that `pack` makes.
        """

    def encode(self, array: NDArray[np.floating[Any]], *, centred: bool = False) -> Parts:
        """Return one array of bytes; its last axis is a row."""
        if not _has_rows(array.shape):
            return _FLOAT32.encode(array)
        rows = as_float32(array).reshape(-1, array.shape[-1])
        if np.abs(rows).max() > _LARGEST:
            raise OverflowError(f"a value too large for {self.name}, in which it is sent")
        if not self._has_centre(array.shape, centred):
            return {"": self._encoded(rows).reshape(*array.shape[:-1], -1)}
        left = rows.mean(axis=0, dtype=np.float64).astype(np.float32)[None]
        centre, parts = np.zeros_like(left), []
        for _ in range(self.centre_rows):
            parts.append(self._encoded(left - centre))
            centre = centre + self._decoded(parts[-1])
        return {_CENTRED: np.concatenate([*parts, self._encoded(rows - centre)])}

    def decode(self, parts: Parts) -> NDArray[np.floating[Any]]:
        """Return the rows in float32."""
        if "" in parts and not _has_rows(parts[""].shape):
            return _FLOAT32.decode(parts)
        suffix, array = next(iter(parts.items()))
        if len(parts) > 1 or suffix not in ("", _CENTRED) or array.dtype != np.uint8:
            found = {f"{part.dtype} {name}".strip() for name, part in parts.items()}
            raise SummaryError(
                "dtype", f"came in {', '.join(sorted(found))}, expected the bytes of {self.name}"
            )
        if array.ndim < 2 or array.shape[-1] <= _SCALE_BYTES:
            raise SummaryError("shape", f"came as bytes of shape {array.shape}, too few for a row")
        if suffix == _CENTRED and (array.ndim != 2 or len(array) <= self.centre_rows):
            raise SummaryError("shape", f"came as {len(array)} rows with their centre, too few")
        # Of bytes that encode does not make, sums may overflow; the summary's own check finds it.
        with np.errstate(over="ignore", invalid="ignore"):
            rows = self._decoded(array.reshape(-1, array.shape[-1]))
            if suffix == "":
                return rows.reshape(*array.shape[:-1], -1)
            centre = np.zeros_like(rows[:1])
            for row in rows[: self.centre_rows]:
                centre = centre + row
            return rows[self.centre_rows :] + centre

    def layout(self, shape: tuple[int, ...], *, centred: bool = False) -> Parts:
        """Return bytes of the shape that share one number."""
        if not _has_rows(shape):
            return _FLOAT32.layout(shape)
        length = _SCALE_BYTES + self.row_bytes(shape[-1])
        if self._has_centre(shape, centred):
            rows = shape[0] + self.centre_rows
            return {_CENTRED: np.broadcast_to(np.uint8(0), (rows, length))}
        return {"": np.broadcast_to(np.uint8(0), (*shape[:-1], length))}

    def _has_centre(self, shape: tuple[int, ...], centred: bool) -> bool:
        worthwhile = self.centre_rows > 0 and shape[0] >= self.least_centred
        return centred and worthwhile and len(shape) == 2

    def _encoded(self, rows: NDArray[np.float32]) -> NDArray[np.uint8]:
        scales = self.scales(rows)
        upper = (scales.view(np.uint32) >> np.uint32(16)).astype("<u2")
        codes = self.pack(rows, scales[:, None])
        return np.concatenate([upper[:, None].view(np.uint8), codes], axis=1)

    def _decoded(self, array: NDArray[np.uint8]) -> NDArray[np.float32]:
        upper = np.ascontiguousarray(array[:, :_SCALE_BYTES]).view("<u2")
        scales = (upper.astype(np.uint32) << np.uint32(16)).view(np.float32)
        if not (np.isfinite(scales) & ~np.signbit(scales)).all():
            raise SummaryError("non-finite", "has a scale that is negative, NaN or infinite")
        return self.unpack(array[:, _SCALE_BYTES:]) * scales


def _has_rows(shape: tuple[int, ...]) -> bool:
    return len(shape) >= 2 and 0 not in shape


def as_bfloat16(scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return float32 numbers, at least 0, rounded to the nearest that have no lower half."""
    halves = scales.view(np.uint32) + np.uint32(0x8000)
    return (halves & np.uint32(0xFFFF0000)).view(np.float32)
