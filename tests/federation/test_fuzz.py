"""Messages and files that were altered anywhere: refused by name, or as good as one that was not.

``FEDCOF_FUZZ_MESSAGES`` says how many messages; the documentation has the largest number that was
tried.
"""

import os
import shutil
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedcof.errors import AnswerError, RunFolderError, SummaryError
from fedcof.federation.admission import Admission
from fedcof.federation.codes import CODES
from fedcof.federation.records import Answer, Roster
from fedcof.federation.store import SummaryStore
from fedcof.methods import METHODS

MESSAGES = int(os.environ.get("FEDCOF_FUZZ_MESSAGES", "1500"))
CLIENT = "north"


def honest(method, coding="float32", seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(12, 4)).astype(np.float32)
    made = method.summarize(features, np.arange(12) % 3, client_id=CLIENT)
    return made.to_bytes(coding)


KINDS = [
    (METHODS[name](), coding)
    for name in ("fedcof", "fed3r", "ccvr")
    for coding in ("float32", "float16", "int8")
]
"""Methods whose statistics differ, and codings of them."""


class Mutator:
    """Alters bytes: bits, numbers, texts of the header, lengths, parts of another message."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def __call__(self, data, other):
        changed = bytearray(data)
        for _ in range(self._rng.integers(1, 4)):
            change = (self._bits, self._number, self._digit, self._cut, self._double, self._splice)
            change[self._rng.integers(len(change))](changed, other)
        return bytes(changed)

    def _at(self, data):
        return int(self._rng.integers(max(1, len(data))))

    def _bits(self, data, other):
        for _ in range(self._rng.integers(1, 9)):
            if data:
                data[self._at(data)] ^= 1 << int(self._rng.integers(8))

    def _number(self, data, other):
        values = (b"\x00" * 8, b"\xff" * 8, struct.pack("<d", np.nan), struct.pack("<q", 1 << 62))
        value, at = values[self._rng.integers(len(values))], self._at(data)
        data[at : at + len(value)] = value

    def _digit(self, data, other):
        digits = [i for i, byte in enumerate(data[:2000]) if chr(byte).isdigit()]
        if digits:
            data[digits[self._rng.integers(len(digits))]] = int(
                self._rng.choice(list(b"0123456789-e"))
            )

    def _cut(self, data, other):
        del data[self._at(data) :]

    def _double(self, data, other):
        at = self._at(data)
        data[at:at] = data[at : at + int(self._rng.integers(1, 200))]

    def _splice(self, data, other):
        at = self._at(data)
        data[at:] = other[at:]


def test_an_altered_message_is_refused_with_a_code_or_is_a_whole_summary():
    whole = [(method, honest(method, coding)) for method, coding in KINDS]
    mutate, rng = Mutator(0), np.random.default_rng(1)
    let_in, refused = 0, set()
    for number in range(MESSAGES):
        method, data = whole[number % len(whole)]
        _, other = whole[rng.integers(len(whole))]
        altered = mutate(data, other)
        try:
            summary = Admission(method, max_samples=1000).admit(CLIENT, altered)
        except SummaryError as error:
            refused |= {(error.code, error.client_id)}
            continue
        let_in += 1
        assert summary.client_ids == (CLIENT,)
        assert type(summary) is method.summary_type
        assert np.isfinite(summary.scale)
        assert 0 < summary.total <= 1000
    assert let_in < MESSAGES // 2
    assert {client for _, client in refused} == {CLIENT}
    assert {code for code, _ in refused} <= CODES.keys()


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
keys = st.sampled_from(
    [
        "clients",
        "answered",
        "sizes",
        "blob",
        "failed",
        "codes",
        "samples",
        "classes",
        "version",
        "clock",
        "fault",
    ]
)


@given(st.dictionaries(keys, values))
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_record_is_an_answer_or_an_error_of_the_wire(record):
    for read in (Roster.from_record, Answer.from_record):
        with suppress(AnswerError):
            read(record, limit=100)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The file of a store with a few summaries, closed."""
    path = tmp_path_factory.mktemp("kept") / "summaries.sqlite"
    method = METHODS["fedcof"]()
    with SummaryStore(path, {"method": "fedcof"}) as store:
        for i in range(5):
            rng = np.random.default_rng(i)
            features = rng.normal(size=(12, 4)).astype(np.float32)
            made = method.summarize(features, np.arange(12) % 3, client_id=f"c{i}")
            store.add({f"c{i}": (made, made.to_bytes())})
        store.open_round(1, {f"c{i}" for i in range(5)})
    return path


@given(seed=st.integers(0, 2**32 - 1))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_an_altered_store_is_refused_by_name_or_gives_whole_summaries(seed, kept, tmp_path):
    path = tmp_path / f"{seed}" / "summaries.sqlite"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(Mutator(seed)(kept.read_bytes(), bytes(100_000)))
    try:
        with SummaryStore(path, {"method": "fedcof"}) as store:
            for summary in store.summaries():
                assert np.isfinite(summary.scale)
            store.rounds()
            store.sizes()
    except RunFolderError as error:
        refused = str(error)
    else:
        refused = ""
    finally:
        shutil.rmtree(path.parent)
    assert not refused or str(path.parent) in refused
