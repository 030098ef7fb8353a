"""Bytes that would take far more memory than they are: none is decoded."""

import struct
import tracemalloc

import numpy as np
import pytest

from fedcof.errors import CorruptBytesError, SummaryError
from fedcof.methods import FedCOF
from fedcof.summaries import from_bytes
from fedcof.wire import decode, encode

MEGABYTE = 2**20


def peak(call):
    tracemalloc.start()
    try:
        call()
    finally:
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return taken


def with_header(header):
    return struct.pack("<Q", len(header)) + header


@pytest.mark.parametrize(
    "header",
    [
        b'{"__metadata__":{"fedcof":"{}"},"a":[' + b"[]," * 400_000 + b"[]]}",
        b'{"__metadata__":{"fedcof":"[' + b"{}," * 400_000 + b'{}]"}}',
        b'{"__metadata__":{"fedcof":"{\\"a\\\\\\\\\\":[' + b"[]," * 400_000 + b'[]]}"}}',
    ],
    ids=["header", "metadata", "behind an escape"],
)
def test_lists_and_objects_without_end_are_refused_before_they_are_made(header):
    data = with_header(header)

    def read():
        with pytest.raises(CorruptBytesError):
            decode(data)

    assert peak(read) < 8 * len(data)


@pytest.mark.parametrize("size", [0, 7, 2**40, 2**63, 2**64 - 1])
def test_a_header_of_another_size_than_it_says_is_refused(size):
    with pytest.raises(CorruptBytesError):
        decode(struct.pack("<Q", size) + b"{}")


def test_bytes_shorter_than_a_size_are_refused():
    with pytest.raises(CorruptBytesError):
        decode(b"123")


def test_brackets_in_the_names_of_classes_are_no_lists():
    names = [f'{{"[{i}' for i in range(12_000)]
    assert decode(encode({"x": np.zeros(1)}, {"classes": names}))[1] == {"classes": names}


def test_one_long_name_among_many_short_ones_is_refused_before_all_are_as_long():
    summary = FedCOF().summarize(np.zeros((2, 1)), ["a", "b"])
    arrays, metadata = decode(summary.to_bytes())
    many = 200_000
    arrays = {"means": np.zeros((many, 1), np.float32), "counts": np.ones(many, np.int64)}
    metadata["classes"] = ["x" * 200, *(f"{i}" for i in range(many - 1))]
    data = encode(arrays, metadata)

    def read():
        with pytest.raises(SummaryError, match="of too different a length"):
            from_bytes(data)

    assert peak(read) < 16 * len(data)


def test_some_long_names_among_short_ones_are_read():
    labels = np.array(["x" * 200, *(f"{i}" for i in range(1000))])
    summary = FedCOF().summarize(np.zeros((1001, 4)), labels)
    assert from_bytes(summary.to_bytes()).classes.tolist() == sorted(labels.tolist())
