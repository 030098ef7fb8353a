"""Arrays as bytes."""

import json
import struct
import tracemalloc

import numpy as np
import pytest

from fedcof.errors import CorruptBytesError
from fedcof.wire import _layout, decode, encode


def test_an_array_without_axes_keeps_its_shape():
    # It came back with the shape (1,): the checkpoint of a model with such a parameter did not fit.
    arrays, _ = decode(encode({"scale": np.float32(2.0).reshape(())}, {}))
    assert arrays["scale"].shape == ()
    assert arrays["scale"] == 2.0


def test_an_array_that_is_not_contiguous_comes_back_equal():
    array = np.arange(12.0).reshape(3, 4).T
    assert np.array_equal(decode(encode({"a": array}, {}))[0]["a"], array)


def _file(header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


META = {"fedcof": json.dumps({"kind": "a"})}
ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
TWO = np.array([1.0, 2.0], np.float32)


def test_a_header_that_another_program_has_written_is_read():
    data = _file({"a": ONE, "__metadata__": META}, TWO.tobytes())
    arrays, metadata = decode(data)
    assert metadata == {"kind": "a"}
    assert np.array_equal(arrays["a"], TWO)


BROKEN = {
    "overlapping": {"a": ONE, "b": ONE},
    "outside": {"a": ONE | {"data_offsets": [8, 16]}},
    "too long": {"a": ONE | {"data_offsets": [0, 1 << 60], "shape": [1 << 58]}},
    "negative": {"a": ONE | {"shape": [-2]}},
    "another size": {"a": ONE | {"shape": [3]}},
    "no type": {"a": ONE | {"dtype": "F31"}},
    "no array": {"a": 3},
    "a rest": {},
}


@pytest.mark.parametrize("described", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("as_ours", [True, False])
def test_a_header_that_does_not_fit_its_bytes_is_refused(described, as_ours):
    header = {"__metadata__": META} | described if as_ours else described | {"__metadata__": META}
    text = json.dumps(header, separators=(",", ":")).encode()
    for _ in range(2):  # whether it has been seen or not
        with pytest.raises(CorruptBytesError):
            decode(_file(text, TWO.tobytes()))


def test_metadata_that_stand_there_twice_are_refused():
    other = json.dumps({"__metadata__": {"fedcof": json.dumps({"kind": "b"})}})[1:-1]
    text = json.dumps({"__metadata__": META, "a": ONE}, separators=(",", ":"))
    with pytest.raises(CorruptBytesError):
        decode(_file(f"{text[:-1]},{other}}}".encode(), TWO.tobytes()))


def test_metadata_that_stand_there_twice_behind_an_array_are_refused():
    # They were taken for a header of another program, and the last of them counted.
    one, two = (f'"__metadata__":{{"fedcof":"{{\\"kind\\":\\"{k}\\"}}"}}' for k in "ab")
    text = f'{{"a":{json.dumps(ONE)},{one},{two}}}'
    with pytest.raises(CorruptBytesError):
        decode(_file(text.encode(), TWO.tobytes()))


def test_lists_where_the_metadata_should_stand_take_little_memory():
    # They were made before they were counted: 27 times the bytes of the header.
    data = _file(b'{"__metadata__":{"fedcof":[' + b"[]," * 200_000 + b"[]]}}", b"")
    tracemalloc.start()
    with pytest.raises(CorruptBytesError):
        decode(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * len(data)


@pytest.mark.parametrize("rest", range(8))
def test_arrays_of_a_header_of_any_length_are_aligned(rest):
    # They were views of the bytes wherever they stood, which C code may not read.
    one = json.dumps({"__metadata__": META, "a": ONE}, separators=(",", ":")).encode()
    arrays, _ = decode(_file(one + b" " * rest, TWO.tobytes()))
    assert arrays["a"].flags.aligned
    assert np.array_equal(arrays["a"], TWO)


def test_an_array_that_stands_askew_in_a_file_as_ours_is_refused():
    byte = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}
    askew = {"a": byte, "b": ONE | {"data_offsets": [1, 9]}}
    one = json.dumps({"__metadata__": META, **askew}, separators=(",", ":")).encode()
    with pytest.raises(CorruptBytesError):
        decode(_file(one + b" " * (-len(one) % 8), b"1" + TWO.tobytes()))


def test_a_long_header_is_not_kept():
    kept = _layout.cache_info().currsize
    decode(encode({f"array-{i}": TWO for i in range(100)}, {}))
    assert _layout.cache_info().currsize == kept
