"""Gaussian classes, each with a covariance of its own."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

from fedcof import FedCOFOracle, HeadError, SummaryError, withdraw
from fedcof.methods.gaussian_heads import GHLDA
from fedcof.methods.gh_qda import GHQDA, pooled_samples_by_evidence


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_without_the_pooled_covariance_it_is_scikit_learn_s(iris):
    x, y = iris
    theirs = QuadraticDiscriminantAnalysis(store_covariance=True).fit(x, y)
    method = GHQDA(blend=0.0, pooled_share=0.0)
    # Which divisor scikit-learn's covariances have, depends on its version: it gets ours here.
    summary = replace(method.summarize(x, y), covariances=np.stack(theirs.covariance_))
    head = method.solve([summary])
    np.testing.assert_allclose(
        head.predict_log_proba(x), theirs.predict_log_proba(x), rtol=1e-8, atol=1e-8
    )


def test_with_the_pooled_covariance_alone_it_is_the_form_lda(iris):
    x, y = iris
    oracle = FedCOFOracle(shrinkage=0.0, form="lda")
    expected = oracle.solve([oracle.summarize(x, y)]).predict_log_proba(x)
    method = GHQDA(blend=0.0, pooled_share=1.0)
    found = method.solve([method.summarize(x, y)]).predict_log_proba(x)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_with_the_pooled_covariance_alone_it_is_gh_lda(iris):
    x, y = iris
    theirs, method = GHLDA(), GHQDA(pooled_share=1.0)
    expected = theirs.solve([theirs.summarize(x, y)]).predict_log_proba(x)
    found = method.solve([method.summarize(x, y)]).predict_log_proba(x)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")
def test_the_head_does_not_depend_on_who_holds_what(iris, rng):
    x, y = iris
    method = GHQDA(pooled_samples="auto")
    whole = method.solve([method.summarize(x, y, client_id="all")])
    sites = rng.integers(4, size=len(x))
    parts = [method.summarize(x[sites == k], y[sites == k], client_id=str(k)) for k in range(4)]
    np.testing.assert_allclose(
        method.solve(parts).decision_function(x), whole.decision_function(x), rtol=1e-6
    )


@pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")
def test_a_client_that_leaves_a_sum_leaves_the_head(iris):
    x, y = iris
    method = GHQDA()
    [first, second] = [method.summarize(x[k::2], y[k::2], client_id=str(k)) for k in range(2)]
    merged = type(first)._merge([first, second])
    left = method.solve([withdraw(merged, "1", second)])
    np.testing.assert_allclose(
        left.decision_function(x), method.solve([first]).decision_function(x), rtol=1e-8
    )


def test_a_class_of_one_sample_has_the_pooled_covariance():
    x = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 3.0], [9.0, 9.0]])
    method = GHQDA(pooled_share=0.5)
    head = method.solve([method.summarize(x, [0, 0, 0, 0, 1])])
    own = GHQDA(pooled_share=1.0).solve([method.summarize(x, [0, 0, 0, 0, 1])])
    np.testing.assert_allclose(head.factors[1], own.factors[1])
    np.testing.assert_allclose(head.factors[0], own.factors[0], rtol=1e-9)  # the only spread


def test_small_classes_have_more_of_the_pooled_covariance(rng):
    x = rng.normal(size=(40, 2)) * np.repeat([[1.0, 3.0]], 40, axis=0)
    x[35:] += 5
    y = np.repeat([0, 1], [35, 5])
    own = GHQDA(blend=0.0, pooled_share=0.0, pooled_samples=4.0)
    pooled = GHQDA(blend=0.0, pooled_share=1.0)
    summary = own.summarize(x, y)
    head, alone = own.solve([summary]), pooled.solve([summary])
    variances = np.linalg.inv(head.factors @ head.factors.transpose(0, 2, 1))
    common = np.linalg.inv(alone.factors[0] @ alone.factors[0].T)
    for share, variance, covariance in zip(
        [4 / 38, 0.5], variances, summary.covariances, strict=True
    ):
        expected = share * common + (1 - share) * covariance
        np.testing.assert_allclose(variance, expected, rtol=1e-8)


class TestEvidence:
    def test_is_large_where_the_classes_have_one_covariance(self, rng):
        spread = np.stack([np.linalg.eigvalsh(np.cov(rng.normal(size=(4, 60)))) for _ in range(20)])
        assert pooled_samples_by_evidence(spread, np.full(20, 59)) > 400

    def test_finds_how_far_the_covariances_are_apart(self, rng):
        nu, dim, freedom = 30.0, 4, 200
        spread = []
        for _ in range(60):  # an inverse Wishart covariance of the mean 1, and a sample of it
            root = rng.normal(size=(int(nu) + dim + 1, dim))
            scale = np.linalg.cholesky(nu * np.linalg.inv(root.T @ root))
            sample = rng.normal(size=(freedom, dim)) @ scale.T
            spread.append(np.linalg.eigvalsh(sample.T @ sample / freedom))
        found = pooled_samples_by_evidence(np.stack(spread), np.full(60, freedom))
        assert found == pytest.approx(nu, rel=0.25)

    def test_stands_as_a_number_in_the_provenance(self, iris):
        method = GHQDA(pooled_share=0.0, pooled_samples="auto")
        provenance = method.solve([method.summarize(*iris)]).provenance
        assert provenance.automatic == ["pooled_samples"]
        assert provenance.hyperparameters["pooled_samples"] == pytest.approx(15.02, abs=0.01)


def test_a_class_with_too_few_samples_for_a_covariance_of_its_own_is_named(rng):
    x, y = rng.normal(size=(13, 4)), np.repeat([0, 1], [10, 3])
    method = GHQDA(blend=0.0, pooled_share=0.0)
    with pytest.raises(HeadError, match="class 1 is singular"):
        method.solve([method.summarize(x, y)])


def test_without_a_class_of_two_samples_there_is_no_spread():
    with pytest.raises(SummaryError, match="one sample"):
        GHQDA().solve([GHQDA().summarize(np.eye(2), [0, 1])])
