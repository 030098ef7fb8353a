import numpy as np

from fedcof import merge
from fedcof.methods.fedran import FedRAN
from fedcof.numerics import scaled_eigenvectors


def test_with_the_full_rank_the_head_is_ridge_regression_on_all_samples(blobs, deal):
    features, labels, _ = blobs
    method = FedRAN(ridge=2.0, gram_rank=6)
    targets = (labels[:, None] == np.arange(4)).astype(float)
    expected = np.linalg.solve(features.T @ features + 2 * np.eye(6), features.T @ targets).T
    np.testing.assert_allclose(
        method.solve(deal(method, *blobs)).weight, expected, rtol=1e-7, atol=1e-10
    )


def test_a_client_cuts_its_matrix_to_the_leading_part(rng):
    for shape in ((9, 4), (3, 7)):
        rows = rng.normal(size=shape)
        _, values, vectors = np.linalg.svd(rows, full_matrices=False)
        expected = (vectors[:2].T * values[:2] ** 2) @ vectors[:2]
        leading, _ = scaled_eigenvectors(rows, 2)
        np.testing.assert_allclose(leading.T @ leading, expected, atol=1e-12)
        assert len(scaled_eigenvectors(rows, 99)[0]) == min(shape)


def test_fewer_samples_than_the_rank_leave_rows_of_zeros(rng):
    summary = FedRAN(gram_rank=5).summarize(rng.normal(size=(2, 8)), [0, 1], client_id="a")
    assert summary.vectors.shape == (1, 5, 8)
    assert not summary.vectors[0, 2:].any()
    other = FedRAN(gram_rank=5).summarize(rng.normal(size=(9, 8)), [0] * 9, client_id="b")
    merged = merge([other, summary])
    np.testing.assert_array_equal(merged.vectors, np.concatenate([summary.vectors, other.vectors]))
    assert merged.formula_bytes == summary.formula_bytes + other.formula_bytes
