import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from fedcof import FedCOFOracle, HeadError, LinearHead
from fedcof.evaluation import rejection_curve
from fedcof.heads import solve_discriminant
from fedcof.rejection import Rejection


@pytest.fixture
def head():
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=2000)
    features = rng.normal(size=(2000, 8)) + 6.0 * np.eye(4, 8)[labels]
    method = FedCOFOracle(0.0, form="lda", temperature=3.0)
    return method.solve([method.summarize(features, labels)]), features


@given(st.integers(0, 1000), st.integers(2, 6), st.integers(1, 5))
def test_it_is_the_log_likelihood_against_that_of_all(seed, classes, dim):
    rng = np.random.default_rng(seed)
    means, root = rng.normal(size=(classes, dim)), rng.normal(size=(dim, dim + 2))
    covariance, priors = root @ root.T, rng.dirichlet(np.full(classes, 5.0))
    weight, bias = solve_discriminant(means, covariance, priors)
    x = 3 * rng.normal(size=(7, dim))
    found = Rejection.of(weight, means, priors).familiarity(x @ weight.T + bias)
    centre = priors @ means
    total = covariance + (means - centre).T @ ((means - centre) * priors[:, None])
    nearest = [multivariate_normal(mean, covariance).logpdf(x) for mean in means]
    expected = np.max(nearest, axis=0) - multivariate_normal(centre, total).logpdf(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_share_of_known_samples_that_is_rejected_is_the_one_that_was_asked_for(head):
    head, features = head
    for share in (0.05, 0.2):
        assert head.is_unknown(features, share).mean() == pytest.approx(share, abs=0.03)


def test_what_is_between_the_classes_is_unknown(head):
    head, features = head
    between = features.mean(axis=0) + 0.01 * features[:50]
    assert head.is_unknown(between, 0.05).mean() > 0.9


def test_it_comes_back_from_a_file(head, tmp_path):
    head, features = head
    head.save(tmp_path / "head")
    loaded = LinearHead.load(tmp_path / "head")
    np.testing.assert_array_equal(loaded.is_unknown(features, 0.1), head.is_unknown(features, 0.1))


def test_other_heads_and_shares_are_refused(head):
    with pytest.raises(HeadError, match="one of the form lda can"):
        LinearHead(np.eye(2), np.arange(2)).is_unknown(np.eye(2), 0.1)
    with pytest.raises(HeadError, match=r"between 0 and 1, not 1\.5"):
        head[0].is_unknown(head[1], 1.5)
    with pytest.raises(HeadError, match="arrays of shapes"):
        Rejection(np.eye(2), np.zeros(3), np.asarray(1.0))
    with pytest.raises(HeadError, match="NaN or infinity"):
        Rejection(np.eye(2), np.array([0.0, np.nan]), np.asarray(1.0))


def test_the_curve_by_hand():
    familiarity = np.arange(10.0)
    right, known = familiarity >= 5, np.arange(10) % 2 == 0
    found = rejection_curve(familiarity, right, known)
    assert found.rejected[0] == 0.0
    assert found.accuracy[[0, -1]].tolist() == [0.4, 2 / 3]
    assert found.unknown_rejected[[0, -1]].tolist() == [0.0, 0.4]
    assert found.auroc == pytest.approx(0.4)
    assert rejection_curve(familiarity, right, familiarity >= 0).auroc is None
