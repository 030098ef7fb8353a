"""A client that leaves a merged summary: what is left is that of the others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof import (
    ClassCovariances,
    ClassMeans,
    ClassSphericalVariances,
    ClassVariances,
    Gram,
    SummaryError,
    merge,
    withdraw,
)

ROWS = [ClassMeans, ClassVariances, ClassSphericalVariances]
SUMS = [Gram, ClassCovariances]


def sites(kind, labels, *, dim=3, seed=0):
    """A summary of each client, which holds the labels given; float64."""
    rng = np.random.default_rng(seed)
    return {
        name: kind.summarize(10 + rng.normal(size=(len(held), dim)), list(held), client_id=name)
        for name, held in labels.items()
    }


def without(parts, name):
    return merge(part for client, part in parts.items() if client != name)


def assert_same(one, other):
    for name in ("classes", "counts", "rows_per_client", *one.axes):
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype, name
        np.testing.assert_array_equal(left, right)
    assert (one.client_ids, one.origin) == (other.client_ids, other.origin)
    assert one.to_bytes() == other.to_bytes()


held = st.lists(st.sampled_from(["ox", "cat", "hippopotamus"]), min_size=1, max_size=5)


@pytest.mark.parametrize("kind", ROWS)
@given(labels=st.dictionaries(st.sampled_from("abcd"), held, min_size=2), data=st.data())
def test_what_is_left_is_that_of_the_others_bit_for_bit(kind, labels, data):
    parts = sites(kind, labels)
    name = data.draw(st.sampled_from(sorted(parts)))
    assert_same(withdraw(merge(parts.values()), name), without(parts, name))


@pytest.mark.parametrize("kind", SUMS)
@given(labels=st.dictionaries(st.sampled_from("abcd"), held, min_size=2), data=st.data())
def test_a_sum_less_what_a_client_sent_is_that_of_the_others_up_to_rounding(kind, labels, data):
    parts = sites(kind, labels)
    name = data.draw(st.sampled_from(sorted(parts)))
    left, expected = withdraw(merge(parts.values()), name, parts[name]), without(parts, name)
    assert (left.client_ids, left.rows_sent) == (expected.client_ids, expected.rows_sent)
    np.testing.assert_array_equal(left.classes, expected.classes)
    np.testing.assert_array_equal(left.counts, expected.counts)
    for array in kind.axes:
        np.testing.assert_allclose(
            getattr(left, array), getattr(expected, array), rtol=1e-10, atol=1e-10
        )


@pytest.mark.parametrize("kind", SUMS)
def test_a_sum_gives_nobody_back_without_what_he_sent(kind):
    parts = sites(kind, {"north": "ab", "south": "ab"})
    with pytest.raises(SummaryError, match=r"'north': cannot be taken out .* is a sum.*own="):
        withdraw(merge(parts.values()), "north")


@pytest.mark.parametrize("kind", SUMS)
@pytest.mark.parametrize("labels", ["abbb", "abc", "a"])
def test_what_a_client_cannot_have_sent_is_not_subtracted(kind, labels):
    parts = sites(kind, {"north": "ab", "south": "ab"})
    other = sites(kind, {"north": labels})["north"]
    with pytest.raises(SummaryError, match=r"'north': .* own is not what this client sent"):
        withdraw(merge(parts.values()), "north", other)


def test_the_summary_of_another_is_not_taken_for_a_clients_own():
    parts = sites(Gram, {"north": "ab", "south": "ab"})
    with pytest.raises(SummaryError, match=r"of kind 'gram' of \('south',\), not what"):
        withdraw(merge(parts.values()), "north", parts["south"])


def test_only_a_client_that_is_there_and_has_a_name_leaves():
    nameless = ClassMeans.summarize([[1.0]], ["a"])
    merged = merge([nameless, ClassMeans.summarize([[1.0]], ["a"], client_id="north")])
    for name in ("", "west"):
        with pytest.raises(SummaryError, match=f"no client '{name}' to withdraw.*'north'"):
            withdraw(merged, name)


def test_the_only_client_leaves_nothing():
    with pytest.raises(SummaryError, match="'north': is the only one here"):
        withdraw(ClassMeans.summarize([[1.0]], ["a"], client_id="north"), "north")


def test_the_origin_stays():
    parts = [
        ClassMeans.summarize([[1.0]], ["a"], client_id=name).with_origin({"backbone": "b1"})
        for name in ("north", "south")
    ]
    assert withdraw(merge(parts), "north").origin == {"backbone": "b1"}
