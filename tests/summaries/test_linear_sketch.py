import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof import FedCOFLinearSketch, LinearSketch, SummaryError, from_bytes, merge, withdraw
from fedcof.client import Sender
from fedcof.summaries.linear_sketch import random_basis


def sketch(features, labels, client_id="a", width=2):
    return LinearSketch.summarize(features, labels, client_id=client_id, width=width)


def test_a_literal_case():
    features = np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    summary = sketch(features, [0, 1, 1])
    np.testing.assert_array_equal(summary.sums, [[1, 2, 0], [3, 1, 1]])
    np.testing.assert_array_equal(summary.squares, [16])
    second_moments = [[10, 2, 0], [2, 5, 1], [0, 1, 1]]
    expected = random_basis(3, 2, 0).T @ second_moments
    np.testing.assert_allclose(summary.products, expected, atol=1e-12)
    assert summary.formula_bytes == 4 * (2 * 3 + 2 * 3 + 1)
    assert summary.within_trace == pytest.approx(16 - 5 - 11 / 2)


@given(st.integers(2, 30), st.integers(1, 6), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_the_sum_of_summaries_is_the_summary_of_all_samples(n, clients, width, seed):
    rng = np.random.default_rng(seed)
    features, labels, owners = rng.normal(size=(n, 5)), rng.integers(3, size=n), np.arange(n)
    owners %= clients
    parts = [
        sketch(features[owners == k], labels[owners == k], str(k), width)
        for k in range(min(n, clients))
    ]
    merged, whole = merge(parts), sketch(features, labels, width=width)
    np.testing.assert_array_equal(merged.classes, whole.classes)
    np.testing.assert_array_equal(merged.counts, whole.counts)
    for name in LinearSketch.axes:
        np.testing.assert_allclose(getattr(merged, name), getattr(whole, name), atol=1e-12)


def test_a_client_is_taken_out_by_subtracting_what_it_sent(rng):
    parts = [sketch(rng.normal(size=(9, 4)), np.arange(9) % (k + 1), f"{k}") for k in range(3)]
    others, left = merge(parts[:2]), withdraw(merge(parts), "2", own=parts[2])
    assert left.client_ids == ("0", "1")
    np.testing.assert_array_equal(left.classes, [0, 1])
    for name in LinearSketch.axes:
        np.testing.assert_allclose(getattr(left, name), getattr(others, name), atol=1e-12)
    with pytest.raises(SummaryError, match=r"give what this client sent \(own=\)"):
        withdraw(merge(parts), "2")


def test_the_random_basis_is_the_same_on_every_machine():
    basis = random_basis(4, 2, 0)
    np.testing.assert_allclose(basis, EXPECTED, atol=1e-12)
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
    assert random_basis(3, 9, 1).shape == (3, 3)


EXPECTED = [
    [0.5318218937704391, 0.03620393074138485],
    [0.3667498611423101, 0.43867985026423256],
    [-0.6800054027460783, -0.1833424919648426],
    [0.3467746601103714, -0.8789964704201864],
]


@pytest.mark.parametrize("width", [3, 99])
def test_the_expected_bytes_are_those_sent(rng, width):
    sender = Sender(FedCOFLinearSketch(width=width))
    sent = sender.send(rng.normal(size=(9, 6)), np.arange(9) % 3, client_id="a")
    assert sender.expected_bytes(np.arange(3), 6, client_id="a") == (
        sent.formula_bytes,
        sent.wire_bytes,
    )
    assert len(from_bytes(sent.data).products) == min(width, 6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"squares": np.array([-1.0])}, "squares must be one number"),
        ({"squares": np.ones(2)}, "squares must be one number"),
        ({"products": np.ones((4, 3))}, "more than the 3 numbers of a feature"),
        ({"classes": np.array([1, 1])}, "appears twice"),
    ],
)
def test_what_is_refused(changes, message):
    summary = sketch(np.eye(3), [0, 1, 1])
    fields = {
        name: getattr(summary, name) for name in ("classes", "counts", *LinearSketch.axes)
    } | changes
    with pytest.raises(SummaryError, match=message):
        LinearSketch(**fields)
