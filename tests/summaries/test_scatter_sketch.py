from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof import ScatterSketch, SummaryError, from_bytes, merge
from fedcof.numerics import scaled_eigenvectors

# Deviations from the class means: (3, 0), (-3, 0) in class 0 and (0, 1), (0, -1) in class 1.
FEATURES = np.array([[4.0, 1.0], [-2.0, 1.0], [5.0, 3.0], [5.0, 1.0]])
LABELS = [0, 0, 1, 1]


def sketch(rank, client_id="a", features=FEATURES, labels=LABELS):
    return ScatterSketch.summarize(features, labels, client_id=client_id, rank=rank)


def scatter(summary):
    return summary.vectors.T @ summary.vectors


def test_a_literal_case():
    summary = sketch(1)
    np.testing.assert_array_equal(summary.means, [[1, 1], [5, 2]])
    np.testing.assert_allclose(summary.vectors, [[18**0.5, 0]], atol=1e-12)
    np.testing.assert_allclose(summary.trace, [2])
    assert summary.formula_bytes == 4 * (2 * 2 + 1 * 2 + 1)


def test_without_vectors_the_trace_is_that_of_the_scatter():
    summary = sketch(0)
    assert summary.vectors.shape == (0, 2)
    np.testing.assert_allclose(summary.trace, [20])


def test_no_more_vectors_than_there_are():
    summary = sketch(99)
    assert len(summary.vectors) == 2
    np.testing.assert_allclose(scatter(summary), [[18, 0], [0, 2]], atol=1e-12)
    assert summary.trace == pytest.approx(0, abs=1e-12)
    assert len(sketch(9, features=np.eye(3), labels=[0, 1, 2]).vectors) == 0
    doubled = sketch(9, features=FEATURES[[0, 0, 1]], labels=[0, 0, 0])
    assert len(doubled.vectors) == 1  # three samples in a line


sizes = st.integers(2, 12), st.integers(1, 6), st.integers(0, 12), st.integers(0, 2**32 - 1)


@given(*sizes)
def test_the_best_of_its_rank_whichever_matrix_is_smaller(n, dim, rank, seed):
    rows = np.random.default_rng(seed).normal(size=(n, dim))
    vectors, trace = scaled_eigenvectors(rows, rank)
    values, basis = np.linalg.eigh(rows.T @ rows)
    best = (basis[:, ::-1] * values[::-1])[:, :rank] @ basis[:, ::-1][:, :rank].T
    np.testing.assert_allclose(vectors.T @ vectors, best, atol=1e-9)
    np.testing.assert_allclose(trace, values[::-1][min(rank, len(vectors)) :].sum(), atol=1e-9)


@given(*sizes)
def test_the_order_of_the_samples_changes_rounding_alone(n, dim, rank, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, dim))
    one, _ = scaled_eigenvectors(rows, rank)
    other, _ = scaled_eigenvectors(rng.permutation(rows), rank)
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_largest_first_and_the_largest_number_of_each_positive():
    rows = np.random.default_rng(0).normal(size=(30, 8))
    vectors, _ = scaled_eigenvectors(rows, 5)
    lengths = np.linalg.norm(vectors, axis=1)
    assert (np.diff(lengths) < 0).all()
    assert (vectors.max(axis=1) == np.abs(vectors).max(axis=1)).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_types_of_features(dtype):
    summary = sketch(2, features=FEATURES.astype(dtype))
    np.testing.assert_allclose(scatter(summary), [[18, 0], [0, 2]], atol=1e-5)


def test_merged_clients_keep_their_ranks_over_the_wire():
    parts = [sketch(1, "b"), sketch(0, "c"), sketch(2, "a")]
    merged = merge([merge(parts[:2]), parts[2]])
    back = from_bytes(merged.to_bytes("means=float32,vectors=int8"))
    for summary in (merged, back):
        assert summary.client_ids == ("a", "b", "c")
        assert summary.rank_per_client.tolist() == [2, 1, 0]
        np.testing.assert_allclose(summary.trace, [0, 2, 20], atol=1e-6)
    assert merged.formula_bytes == sum(part.formula_bytes for part in parts)


@pytest.mark.parametrize("coding", ["float32", "float16", "int8", "int6", "int4"])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_size_is_known_before(coding, rank):
    summary = sketch(rank)
    lengths = {"dim": 2, "rank": rank}
    expected = ScatterSketch.encoded_size(summary.classes, lengths, client_id="a", coding=coding)
    assert expected == (summary.formula_bytes, len(summary.to_bytes(coding)))


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"trace": np.array([-1.0])}, "trace", "the trace of what is left is -1, below 0"),
        ({"trace": np.array([np.nan])}, "non-finite", "trace holds NaN"),
        ({"trace": np.ones(2)}, "shape", "trace has shape"),
        ({"vectors": np.array([[np.inf, 0.0]])}, "non-finite", "vectors holds NaN or infinity"),
        ({"vectors": np.ones((1, 3))}, "shape", "vectors has shape"),
        ({"vectors": np.ones((3, 2))}, "rank", "3 vectors, but the scatter has rank 2 at most"),
        ({"rank_per_client": np.array([2])}, "shape", "how many of the 1 vectors"),
        ({"rank_per_client": np.array([0, 1])}, "shape", "for each of 1 clients"),
        ({"classes": np.array([1, 1])}, "classes", "appears twice"),
    ],
)
def test_what_is_refused(changes, code, message):
    fields = {"rank_per_client": None} | changes
    with pytest.raises(SummaryError, match=message) as caught:
        replace(sketch(1), **fields)
    assert caught.value.code == code
