"""Summaries that are read and checked together are those that are read one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcof.errors import SummaryError
from fedcof.summaries import ClassMeans, ClassVariances, from_bytes
from fedcof.summaries.together import each_from_bytes, from_bytes_together
from fedcof.wire import decode, encode


def class_means(client_id, classes, *, dim=3, seed=0):
    rng = np.random.default_rng([seed, *client_id.encode()])
    return ClassMeans(
        client_ids=(client_id,),
        classes=np.array(classes),
        counts=rng.integers(1, 9, len(classes)),
        means=rng.normal(size=(len(classes), dim)),
    )


def forged(data, **changes):
    arrays, metadata = decode(data)
    return encode({**arrays, **changes}, metadata)


def assert_same(one, other):
    assert type(one) is type(other)
    for name in ("client_ids", "total", "rows_sent", "formula_bytes", "origin", "scale"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("classes", "counts", "rows_per_client", *one.axes):
        first, second = getattr(one, name), getattr(other, name)
        np.testing.assert_array_equal(first, second)
        assert first.dtype.kind == second.dtype.kind
        assert not first.flags.writeable
    assert one.to_bytes() == other.to_bytes()


labels = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)
names = st.lists(st.sampled_from(["cat", "a dog", "emu"]), min_size=1, max_size=3, unique=True)


@settings(max_examples=30)
@given(st.lists(st.one_of(labels, names), min_size=1, max_size=5), st.sampled_from([3, 3, 4]))
def test_each_is_as_if_it_were_read_alone(classes, dim):
    data = {
        f"client-{i}": class_means(f"client-{i}", some, dim=dim if i == 1 else 3).to_bytes(
            "int8" if i == 2 else "float32"
        )
        for i, some in enumerate(classes)
    }
    for client_id, summary in each_from_bytes(data).items():
        assert_same(summary, from_bytes(data[client_id]))


def test_clients_with_means_are_read_as_one():
    data = [class_means(name, [1, 2]).to_bytes() for name in "abc"]
    (together,) = from_bytes_together(data)
    assert together.client_ids == ("a", "b", "c")
    assert together.rows_per_client.tolist() == [2, 2, 2]


def test_a_statistic_with_rules_for_a_client_is_read_client_by_client():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(4, 3)), [0, 0, 1, 1]
    made = [ClassVariances.summarize(features, labels, client_id=name) for name in "ab"]
    assert len(from_bytes_together([one.to_bytes() for one in made])) == 2


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: data[:-1], "corrupt"),
        (lambda data: forged(data, counts=np.array([1, 0])), "counts"),
        (lambda data: forged(data, counts=np.array([[1, 1]])), "counts"),
        (lambda data: forged(data, counts=np.array(1)), "counts"),
        (lambda data: forged(data, counts=np.array([1, 1, 1])), "shape"),
        (lambda data: forged(data, means=np.full((2, 3), np.nan, np.float32)), "non-finite"),
        (lambda data: forged(data, means=np.zeros((2, 3))), "dtype"),
        (lambda data: forged(data, means=np.zeros((3, 3), np.float32)), "shape"),
        (lambda data: forged(data, classes=np.array([0.0, 1.0])), "labels"),
        (lambda data: forged(data, client_ids=np.array([1])), "corrupt"),
        (lambda data: forged(data, rows_per_client=np.array([3])), "shape"),
    ],
)
def test_one_bad_client_costs_itself_alone(change, code):
    data = {name: class_means(name, [1, 2]).to_bytes() for name in "abc"}
    good = dict(data)
    data["b"] = change(data["b"])
    found = each_from_bytes(data)
    with pytest.raises(SummaryError) as alone:
        from_bytes(data["b"])
    assert isinstance(found["b"], SummaryError)
    assert (found["b"].code, found["b"].message) == (alone.value.code, alone.value.message)
    assert found["b"].code == code
    for name in "ac":
        assert_same(found[name], from_bytes(good[name]))


def test_one_long_name_of_a_class_does_not_spread_over_all_rows():
    many = class_means("a", list(range(5000)), dim=1)
    texts = ClassMeans(
        client_ids=("a",),
        classes=np.array([f"{label}" for label in many.classes.tolist()]),
        counts=many.counts,
        means=many.means,
    )
    data = [texts.to_bytes(), class_means("b", ["x" * 200], dim=1).to_bytes()]
    assert len(from_bytes_together(data)) == 2
