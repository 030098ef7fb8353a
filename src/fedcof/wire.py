"""Arrays and what is said of them as bytes: safetensors, the same bytes for the same content."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from functools import lru_cache
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from fedcof.errors import CorruptBytesError

_KEY = "fedcof"

_METADATA = "__metadata__"
"""Where a safetensors file has texts beside its arrays."""

_START = f'{{"{_METADATA}":{{"{_KEY}":"'
_JSON = json.JSONDecoder()

_SHORT = 4 << 10
"""Characters up to which what is said of the arrays is kept: it is the same at many clients."""

_NOT_WHOLE = (
    SafetensorError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
    RecursionError,
    struct.error,
)

_MOST_CONTAINERS = 10_000
"""Lists and objects in a header; a header of ours has three for every array, and a few more."""


def encode(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> bytes:
    """Return arrays and metadata, of JSON's types and NumPy's scalars, as a safetensors file.

    The metadata is one JSON text under one key, since safetensors writes several in random order.
    """
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return bytes(safetensors.save(contiguous, {_KEY: _as_json(metadata)}))


def _as_json(metadata: Mapping[str, Any]) -> str:
    return json.dumps(metadata, sort_keys=True, default=methodcaller("item"))


def encoded_size(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> int:
    """Return the length of what `encode` gives, without reading the arrays.

    So they may be views of one number that only have the shape and the type.
    """
    header: dict[str, Any] = {_METADATA: {_KEY: _as_json(metadata)}}
    end = 0
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])):
        start, end = end, end + array.nbytes
        header[name] = {
            "dtype": f"{array.dtype.kind.upper()}{8 * array.itemsize}",
            "shape": array.shape,
            "data_offsets": [start, end],
        }
    header_size = len(json.dumps(header, separators=(",", ":")))
    return 8 + -(-header_size // 8) * 8 + end


def decode(data: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the metadata that `encode` was given.

    Raises
    ------
    CorruptBytesError
        If the bytes are not whole.
    """
    arrays, metadata = views(data)
    return {name: array.copy() for name, array in arrays.items()}, metadata


def views(data: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return what `decode` does, with arrays that are views of the bytes: none can be written to.

    Raises
    ------
    CorruptBytesError
        If the bytes are not whole.
    """
    try:
        (header_size,) = struct.unpack_from("<Q", data)
        start = 8 + header_size
        header = data[8:start]
        if ours := _parted(header):
            said, described = ours
            read = _layout if len(described) <= _SHORT else _layout.__wrapped__
            arrays = {
                name: np.frombuffer(data, dtype, size, start + offset).reshape(shape)
                for name, dtype, shape, size, offset in read(described, len(data) - start)
            }
        else:
            said = _read_json(header)[_METADATA][_KEY]
            arrays = safetensors.load(data)
        metadata = _read_json(said.encode())
    except _NOT_WHOLE as error:
        raise CorruptBytesError(
            f"these {len(data)} bytes are not a whole file of fedcof ({type(error).__name__})"
        ) from None
    if not isinstance(metadata, dict):
        raise CorruptBytesError("the metadata of these bytes is not a JSON object")
    return arrays, metadata


def _parted(header: bytes) -> tuple[str, str] | None:
    """Return the text of the metadata, and the JSON text that describes the arrays.

    None if the header is not as `encode` writes it, which is as long as lets the arrays stand at
    multiples of their size.
    """
    text = header.decode()
    if len(header) % 8 == 0 and text.startswith(_START):
        said, stop = _JSON.raw_decode(text, len(_START) - 1)  # a text: no list is made
        if text.startswith('},"', stop):
            return said, "{" + text[stop + 2 :].rstrip(" ")
    return None


@lru_cache(maxsize=1024)
def _layout(
    described: str, size: int
) -> list[tuple[str, np.dtype[Any], tuple[int, ...], int, int]]:
    """Return name, type, shape, size and place of every array in some bytes, as safetensors says.

    It is the same for thousands of clients: so what takes longest is done once.
    """
    places = _read_json(described.encode())
    if _METADATA in places:
        raise ValueError("the metadata stands there twice")
    header = described.encode()
    arrays = safetensors.load(struct.pack("<Q", len(header)) + header + bytes(size))
    layout = [
        (name, array.dtype, array.shape, array.size, places[name]["data_offsets"][0])
        for name, array in arrays.items()
    ]
    if any(offset % dtype.itemsize for _, dtype, _, _, offset in layout):
        raise ValueError("an array does not stand at a multiple of its size")
    return layout


def _read_json(text: bytes) -> Any:
    """Return what a text says, if that takes no more than a small multiple of its bytes.

    Every list and object takes 60 bytes, and two characters that say it are enough: so they are
    counted first, outside of strings.
    """
    if text.count(b"[") + text.count(b"{") <= _MOST_CONTAINERS:
        return json.loads(text.decode())
    characters = np.frombuffer(text.replace(rb"\\", b"").replace(rb"\"", b""), np.uint8)
    inside = np.bitwise_xor.accumulate((characters == ord('"')).view(np.uint8))
    opens = characters == ord("[")
    opens |= characters == ord("{")
    opens &= inside == 0
    if np.count_nonzero(opens) > _MOST_CONTAINERS:
        raise ValueError("too many lists and objects in the header")
    return json.loads(text.decode())
