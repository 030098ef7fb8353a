"""Real numbers as integers modulo 2^64, so that they can be masked and their sum is exact.

A number x of a client stands as ``round(x * 2**f)``, f binary digits after the point, modulo
2^64. Every client's numbers are at most ``bound`` in size, which is checked and never clipped, so
the sum of all is within

    clients * (bound * 2**f + 1/2) + noise * 2**f  <  2^63

and f is the largest number for which this holds: the sum cannot wrap around. Rounding adds at most
``clients / 2`` units of 2**-f to a sum, below ``2**-62 * clients * (clients * bound + noise)``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import SummaryError

# Integers modulo 2^64, shape (size,).
Vector = NDArray[np.uint64]

_MOST_FRACTION_BITS = 1000
"""With more, a unit of 2**-f would leave the range of float64."""

_NO_NOISE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class FixedPoint:
    """How the numbers of one array stand in the ring.

    Parameters
    ----------
    bound : float
        The largest size of a number of one client.
    clients : int
        The most clients that are summed.
    integers : bool, default False
        Whether the numbers are whole, such as counts. They then have no digits after the point and
        travel in as few bytes as their sum needs; others take all 8.
    noise : float, default 0
        The largest size of what the clients together add to the sum of one number, such as noise.
        It is added to the ring's integers in units of `unit`.

    Raises
    ------
    SummaryError
        If no sum of so many clients fits the ring.

    Examples
    --------
    >>> number = FixedPoint(bound=8.0, clients=1000)
    >>> number.fraction_bits
    50
    >>> number.decode(number.encode([1.5]) + number.encode([-0.25]))
    array([1.25])
    """

    bound: float
    clients: int
    integers: bool = False
    noise: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.bound < math.inf and 0 <= self.noise < math.inf and self.clients >= 1):
            raise SummaryError(
                "range",
                f"{self.clients} clients of numbers up to {self.bound} and noise up to "
                f"{self.noise} cannot be summed: the bound and the clients must be positive, all "
                "finite",
            )
        if self.integers and self.largest_sum >= 2**63:
            raise SummaryError(
                "range",
                f"the sum of {self.clients} clients with integers up to {self.bound:g} can leave "
                "64 bits; take a smaller bound",
            )

    @cached_property
    def fraction_bits(self) -> int:
        """Binary digits after the point, f; below 0 where a unit is larger than 1."""
        if self.integers:
            return 0
        reach = self.clients * Fraction(self.bound) + Fraction(self.noise)
        # reach * 2**f <= 2**63 - 1 - clients / 2, f from the sizes of numerator and denominator.
        room = Fraction(2**63 - 1) - Fraction(self.clients, 2)
        ratio = room / reach
        bits = ratio.numerator.bit_length() - ratio.denominator.bit_length()
        while Fraction(2) ** bits > ratio:
            bits -= 1
        return min(bits, _MOST_FRACTION_BITS)

    @property
    def unit(self) -> float:
        """What one unit of the ring's integers is worth, 2**-f."""
        return math.ldexp(1.0, -self.fraction_bits)

    @cached_property
    def largest_sum(self) -> int:
        """The largest size of a sum in the ring's units; below 2^63."""
        scale = Fraction(2) ** self.fraction_bits
        rounding = 0 if self.integers else Fraction(self.clients, 2)
        sums = self.clients * Fraction(self.bound) + Fraction(self.noise)
        return math.floor(sums * scale + rounding)

    @cached_property
    def width(self) -> int:
        """Bytes of a number as it travels: what is above them is known from the range."""
        return self.largest_sum.bit_length() // 8 + 1 if self.integers else 8

    def encode(self, numbers: ArrayLike) -> Vector:
        """Return the numbers of a client as integers modulo 2^64, in the shape that they have.

        Raises
        ------
        SummaryError
            If a number is NaN, infinite, above the bound, or not whole where it must be. Nothing
            is clipped.
        """
        array = np.asarray(numbers, dtype=np.float64)
        if not np.isfinite(array).all():
            raise SummaryError("non-finite", "a number is NaN or infinite and cannot be summed")
        if (np.abs(array) > self.bound).any():
            raise SummaryError(
                "range",
                f"a number is above {self.bound:g} in size, the bound that all clients agreed on; "
                "nothing is clipped, so nothing is sent",
            )
        scaled = np.rint(np.ldexp(array, self.fraction_bits))
        if self.integers and (scaled != array).any():
            raise SummaryError("range", "a number that must be whole, such as a count, is not")
        return scaled.astype(np.int64).view(np.uint64)

    def decode(self, total: Vector) -> NDArray[np.float64]:
        """Return a sum of encoded numbers: the nearest float64 to what is exact in the ring.

        Raises
        ------
        SummaryError
            If the sum is larger than clients within the bound can make it.
        """
        above = np.int64(64 - 8 * self.width)
        units = (total << above.astype(np.uint64)).view(np.int64) >> above
        # The smallest int64 is its own negative, so that a size cannot be compared.
        if ((units > self.largest_sum) | (units < -self.largest_sum)).any():
            raise SummaryError(
                "range",
                f"a sum is larger than {self.clients} clients with numbers up to {self.bound:g} "
                "can make it: a client sent numbers above the bound, or the masks do not cancel",
            )
        return np.ldexp(units.astype(np.float64), -self.fraction_bits)


@dataclass(frozen=True)
class Field:
    """One array of a vector.

    Parameters
    ----------
    shape : tuple of int
    number : FixedPoint
        How its numbers stand in the ring.
    """

    shape: tuple[int, ...]
    number: FixedPoint

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class RingLayout:
    """Named arrays as one vector of integers modulo 2^64; every party knows it.

    Parameters
    ----------
    fields : mapping of str to Field
        The arrays in the order in which they stand in the vector.

    Examples
    --------
    >>> layout = RingLayout.of({"counts": (2,)}, {"counts": 1000}, clients=3, integers=["counts"])
    >>> vector = layout.encode({"counts": [3, 4]})
    >>> layout.pack(vector).hex(), layout.decode(vector + vector)
    ('03000400', {'counts': array([6., 8.])})
    """

    fields: Mapping[str, Field]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", MappingProxyType(dict(self.fields)))

    @classmethod
    def of(
        cls,
        shapes: Mapping[str, tuple[int, ...]],
        bounds: Mapping[str, float],
        clients: int,
        *,
        integers: Collection[str] = (),
        noise: Mapping[str, float] = _NO_NOISE,
    ) -> Self:
        """Return the layout of arrays with these shapes and bounds.

        Parameters
        ----------
        shapes : mapping of str to tuple of int
            As `fedcof.privacy.sums.Sums.layout` has them.
        bounds : mapping of str to float
            As `fedcof.privacy.sums.Sums.bounds` has them.
        clients : int
            The most clients that are summed.
        integers : collection of str, default ()
            The arrays whose numbers are whole.
        noise : mapping of str to float, default {}
            The largest size of the noise in a sum, of the arrays that have noise.
        """
        return cls(
            {
                name: Field(
                    tuple(shape),
                    FixedPoint(
                        float(bounds[name]), clients, name in integers, float(noise.get(name, 0))
                    ),
                )
                for name, shape in shapes.items()
            }
        )

    @cached_property
    def size(self) -> int:
        """The length of the vector."""
        return sum(field.size for field in self.fields.values())

    @cached_property
    def packed_size(self) -> int:
        """Bytes of the vector as it travels."""
        return sum(field.size * field.number.width for field in self.fields.values())

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the layout, shape (32,): equal where two parties mean the same vector."""
        text = json.dumps({name: asdict(field) for name, field in self.fields.items()})
        return hashlib.sha256(text.encode()).digest()

    def slices(self) -> Iterator[tuple[str, Field, slice]]:
        """Yield the name of every array, its field and where it stands in the vector."""
        start = 0
        for name, field in self.fields.items():
            yield name, field, slice(start, start + field.size)
            start += field.size

    def encode(self, arrays: Mapping[str, ArrayLike]) -> Vector:
        """Return the arrays of a client as one vector.

        Raises
        ------
        SummaryError
            If an array is missing, unknown or of another shape, or a number is not in range.
        """
        if arrays.keys() != self.fields.keys():
            raise SummaryError(
                "shape", f"expected the arrays {list(self.fields)}, got {list(arrays)}"
            )
        vector = np.empty(self.size, np.uint64)
        for name, field, place in self.slices():
            if np.shape(arrays[name]) != field.shape:
                raise SummaryError(
                    "shape",
                    f"{name}: expected the shape {field.shape}, got {np.shape(arrays[name])}",
                )
            try:
                vector[place] = field.number.encode(arrays[name]).ravel()
            except SummaryError as error:
                raise SummaryError(error.code, f"{name}: {error.message}") from None
        return vector

    def decode(self, total: Vector) -> dict[str, NDArray[np.float64]]:
        """Return the arrays of which a vector is the sum.

        Raises
        ------
        SummaryError
            If a sum is larger than clients within the bounds can make it.
        """
        arrays = {}
        for name, field, place in self.slices():
            try:
                arrays[name] = field.number.decode(total[place]).reshape(field.shape)
            except SummaryError as error:
                raise SummaryError(error.code, f"{name}: {error.message}") from None
        return arrays

    def pack(self, vector: Vector) -> bytes:
        """Return the bytes that travel: the lowest `FixedPoint.width` of every number."""
        digits = vector.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
        return b"".join(
            digits[place, : field.number.width].tobytes() for _, field, place in self.slices()
        )

    def unpack(self, data: bytes) -> Vector:
        """Return the vector that was packed, modulo 2^(8 width): sums of such vectors decode.

        Raises
        ------
        SummaryError
            If the bytes have another length.
        """
        if len(data) != self.packed_size:
            raise SummaryError(
                "length", f"expected a vector of {self.packed_size} bytes, got {len(data)}"
            )
        digits = np.zeros((self.size, 8), np.uint8)
        start = 0
        for _, field, place in self.slices():
            width, nbytes = field.number.width, field.size * field.number.width
            part = np.frombuffer(data, np.uint8, nbytes, start)
            digits[place, :width] = part.reshape(field.size, width)
            start += nbytes
        return digits.reshape(-1).view("<u8").astype(np.uint64, copy=False)
