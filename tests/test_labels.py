from numbers import Integral

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof.errors import SummaryError
from fedcof.labels import as_client_ids, as_labels, near_twins

anything = st.one_of(
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.none(),
    st.booleans(),
    st.integers(0, 255).map(np.uint8),
    st.integers(0, 2**64 - 1).map(np.uint64),
)
values = st.one_of(
    st.lists(anything),
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.text(max_size=3)),
    st.lists(st.integers(0, 2**64 - 1).map(np.uint64)),
)


@given(values, st.sampled_from([list, tuple, lambda given: np.array(given, dtype=object)]))
def test_each_value_is_a_label_of_its_own_or_none_is(given, container):
    if container not in (list, tuple):
        array = np.empty(len(given), dtype=object)
        array[:] = given
        container = lambda _: array  # noqa: E731
    try:
        labels = as_labels(container(given))
    except SummaryError:
        return
    assert len(labels) == len(given)
    for value, label in zip(given, labels.tolist(), strict=True):
        if isinstance(value, bool | np.bool_ | Integral | float):
            assert label == value


@given(values)
def test_two_clients_do_not_become_one(given):
    try:
        ids = as_client_ids(given)
    except SummaryError:
        return
    pairs = {(id_, value) for id_, value in zip(ids.tolist(), given, strict=True) if id_ == value}
    assert len({id_ for id_, _ in pairs}) == len(pairs)
    assert all(id_.strip() for id_ in ids.tolist())


def test_large_integers_of_two_types_are_not_merged():
    labels = [np.uint64(2**53 + 1), np.int64(2**53), 2**53 + 2]
    assert as_labels(labels).tolist() == [2**53 + 1, 2**53, 2**53 + 2]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([1.0, 2.0], [1, 2]),
        (np.array([1, 2], np.float32), [1, 2]),
        (np.array(["a", "b"], np.dtypes.StringDType()), ["a", "b"]),
        (np.array([np.int32(1), np.uint64(2)], dtype=object), [1, 2]),
        ([b"a", "b"], ["a", "b"]),
        ([bytearray(b"a"), memoryview(b"b")], ["a", "b"]),
        (memoryview(np.array([1, 2])), [1, 2]),
        (bytearray([1, 2]), [1, 2]),
        (["cafe\u0301", "café"], ["café", "café"]),
        ([True, False], [1, 0]),
    ],
)
def test_labels_are_taken_as_they_are_meant(labels, expected):
    assert as_labels(labels).tolist() == expected


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, "1"], "row 0 is 1, a int, that of row 1 a str"),
        (["1", 1], "row 1 is 1, a int, that of row 0 a str"),
        ([0.5, 1.0], "row 0 is 0.5"),
        ([1.0, float(2**53)], "row 1 is"),
        ([2**63], "row 0 is"),
        (["a", None], "row 1 has no label"),
        (["a", float("nan")], "row 1 has no label"),
        (["a", "  "], "row 1 has no label"),
        ([b"\xff"], "row 0 is bytes that are no text"),
        (np.array(["2020-01-01"], "datetime64[D]"), "datetime64"),
        (["a" * 300], "row 0 has more than 200"),
        ([[1], [2]], "must be 1-d"),
    ],
)
def test_what_is_no_label_is_named_by_its_row(labels, message):
    with pytest.raises(SummaryError, match=message):
        as_labels(labels)


def test_near_twins_differ_by_case_space_or_form():
    assert near_twins(["a b", "A  B", "c", "ﬁ", "fi", 3]) == [("A  B", "a b"), ("fi", "ﬁ")]
