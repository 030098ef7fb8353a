import numpy as np
import pytest

from fedcof import FedCOFLinearSketch, FedCOFOracle, SummaryError, from_bytes
from fedcof.methods.fedcof_linear_sketch import nystroem, shape_beside
from fedcof.summaries.linear_sketch import random_basis

pytestmark = pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")

DIM = 16


def samples(rng, n=200, shift=0.0):
    labels = rng.integers(3, size=n)
    root = rng.normal(size=(DIM, DIM)) * 0.7 ** np.arange(DIM)
    centres = 2 * rng.normal(size=(3, DIM))
    return centres[labels] + rng.normal(size=(n, DIM)) @ root.T + shift, labels


def summaries(method, features, labels, clients=4):
    return [
        method.summarize(features[k::clients], labels[k::clients], client_id=str(k))
        for k in range(clients)
    ]


@pytest.mark.parametrize("form", ["lda", "regression"])
@pytest.mark.parametrize("width", [DIM, DIM + 9])
def test_with_as_many_columns_as_numbers_it_is_the_oracle(rng, form, width):
    features, labels = samples(rng)
    priors = "uniform" if form == "lda" else "counts"
    method = FedCOFLinearSketch(width=width, shrinkage_relative=0.01, form=form, priors=priors)
    oracle = FedCOFOracle(0.0, shrinkage_relative=0.01, form=form, priors=priors)
    head = method.solve(summaries(method, features, labels))
    exact = oracle.solve(summaries(oracle, features, labels))
    np.testing.assert_allclose(head.weight, exact.weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", [1, 5, 12, DIM])
@pytest.mark.parametrize("rho", [0.0, 1.0])
def test_the_trace_is_exact_and_nothing_is_negative(rng, width, rho):
    features, labels = samples(rng)
    method = FedCOFLinearSketch(width=width)
    exact = FedCOFOracle().pool_samples(features, labels).within_scatter
    pooled = method.pool(summaries(method, features, labels))
    within = pooled.scatter(rho).within_scatter
    assert np.trace(within) == pytest.approx(np.trace(exact))
    assert np.linalg.eigvalsh(within)[0] > -1e-9 * np.trace(exact)
    assert np.linalg.eigvalsh(exact - pooled.known)[0] > -1e-4 * np.trace(exact)
    basis = random_basis(DIM, width, 0)
    np.testing.assert_allclose(within @ basis, exact @ basis, atol=1e-5 * np.trace(exact))


def test_more_columns_are_nearer_to_the_exact_scatter(rng):
    features, labels = samples(rng)
    exact = FedCOFOracle().pool_samples(features, labels).within_scatter
    errors = []
    for width in (2, 8, 16):
        method = FedCOFLinearSketch(width=width)
        within = method.pool_samples(features, labels).scatter(0.5).within_scatter
        errors.append(np.linalg.norm(within - exact))
    assert errors == sorted(errors, reverse=True)


def test_the_head_does_not_depend_on_who_has_which_samples(rng):
    features, labels = samples(rng)
    method = FedCOFLinearSketch(width=6)
    weights = [
        method.solve(summaries(method, features, labels, clients)).weight for clients in (1, 3, 50)
    ]
    for weight in weights[1:]:
        np.testing.assert_allclose(weight, weights[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("coding", ["float32", "float16", "int8", "int4"])
def test_rounding_on_the_wire_is_taken_for_noise(rng, coding):
    features, labels = samples(rng, n=600)
    method = FedCOFLinearSketch(width=8)
    parts = summaries(method, features, labels)
    head = method.solve([from_bytes(part.to_bytes(coding)) for part in parts])
    assert head.score(features, labels) > method.solve(parts).score(features, labels) - 0.05


def test_features_far_from_the_origin_lose_the_scatter_and_not_the_head(rng):
    features, labels = samples(rng, shift=300.0)
    method = FedCOFLinearSketch(width=8)
    parts = [from_bytes(s.to_bytes()) for s in summaries(method, features, labels)]
    assert method.solve(parts).score(features, labels) > 0.6


def test_a_sketch_of_another_matrix_is_refused(rng):
    features, labels = samples(rng)
    parts = summaries(FedCOFLinearSketch(width=6, matrix_seed=1), features, labels)
    with pytest.raises(SummaryError, match="solve with the matrix_seed"):
        FedCOFLinearSketch(width=6).solve(parts)


def test_of_low_rank_it_is_exact(rng):
    root, basis = rng.normal(size=(9, 3)), random_basis(9, 4, 0)
    matrix = root @ root.T
    np.testing.assert_allclose(nystroem(matrix @ basis, basis, 1e-12), matrix, atol=1e-9)
    nothing = np.zeros((9, 4))
    np.testing.assert_allclose(nystroem(nothing, basis, 0.0), np.zeros((9, 9)), atol=1e-12)


def test_what_is_left_is_beside_the_basis():
    basis = np.eye(3)[:, :1]
    shape, sphere = shape_beside(np.diag([5.0, 9.0, 1.0]), basis)
    np.testing.assert_allclose(shape, np.diag([0, 3 / 4, 1 / 4]), atol=1e-12)
    np.testing.assert_allclose(sphere, np.diag([0, 1 / 2, 1 / 2]))
    shape, _ = shape_beside(np.zeros((3, 3)), basis)
    np.testing.assert_array_equal(shape, sphere)


def test_one_sample_a_class_has_no_spread():
    method = FedCOFLinearSketch(width=2)
    with pytest.raises(SummaryError, match="no spread"):
        method.solve([method.summarize(np.eye(3), [0, 1, 2])])
