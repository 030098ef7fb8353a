import numpy as np
import pytest

from fedcof import CCVR, FedNCM
from fedcof.methods.virtual_features import draw_features
from fedcof.summaries import ClassCovariances, class_distributions


@pytest.fixture
def stripes(rng):
    """Classes that lie above each other, each a long way along the first axis."""
    labels = rng.permutation(np.repeat([0, 1, 2], 100))
    features = np.stack([rng.normal(1.0, 3.0, 300), rng.normal(labels - 1.0, 0.1)], axis=1)
    return features, labels, rng.integers(6, size=300)


def test_it_sees_the_shape_of_the_classes_and_fedncm_does_not(stripes, deal):
    features, labels, _ = stripes
    ccvr = CCVR().solve(deal(CCVR(), *stripes)).score(features, labels)
    fedncm = FedNCM().solve(deal(FedNCM(), *stripes)).score(features, labels)
    assert ccvr > 0.95
    assert fedncm < 0.75


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(stripes, deal):
    summaries = deal(CCVR(), *stripes)
    heads = [CCVR(seed=seed).solve(summaries) for seed in (1, 1, 2)]
    assert heads[0].weight.tobytes() == heads[1].weight.tobytes() != heads[2].weight.tobytes()
    assert heads[0].bias.tobytes() == heads[1].bias.tobytes()


def test_two_classes_have_two_rows_that_decide_as_the_log_odds(rng, deal):
    labels = np.repeat(["no", "yes"], 50)
    features = rng.normal(size=(100, 2)) + np.where(labels == "yes", 3.0, 0.0)[:, None]
    head = CCVR().solve(deal(CCVR(), features, labels, np.arange(100) % 4))
    assert head.weight.shape == (2, 2)
    np.testing.assert_array_equal(head.weight[0], -head.weight[1])
    assert head.score(features, labels) > 0.95


def test_a_covariance_that_is_indefinite_does_not_break_it():
    summary = ClassCovariances(
        classes=[0, 1],
        counts=[9, 9],
        means=np.array([[0.0, 0.0], [9.0, -9.0]]),
        covariances=np.array([[[1.0, 2.0], [2.0, 1.0]]] * 2),
    )
    head = CCVR().solve([summary])
    assert head.predict([[0.0, 0.0], [9.0, -9.0]]).tolist() == [0, 1]


def test_virtual_features_have_the_mean_and_the_covariance_of_their_class():
    # The average of n draws is off by sqrt(Sigma_ii / n), and their covariance, which is Wishart,
    # by sqrt((Sigma_ij^2 + Sigma_ii Sigma_jj) / n).
    mean, covariance, n = np.array([5.0, -2.0]), np.array([[4.0, 1.0], [1.0, 0.5]]), 20_000
    summary = ClassCovariances(
        classes=[0], counts=[9], means=mean[None], covariances=covariance[None]
    )
    (distribution,) = class_distributions([summary])
    drawn = draw_features(distribution, n, np.random.default_rng(0))
    diagonal = np.diag(covariance)
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(diagonal / n)).all()
    error = np.sqrt((covariance**2 + np.outer(diagonal, diagonal)) / n)
    assert (np.abs(np.cov(drawn.T) - covariance) < 5 * error).all()


def test_features_that_are_all_alike_give_a_head_that_is_finite():
    # Dividing by their spread of zero made it NaN.
    head = CCVR().solve([CCVR().summarize(np.zeros((4, 2)), [0, 0, 1, 1])])
    assert np.isfinite(head.weight).all()
