import numpy as np
import pytest

from fedcof import merge
from fedcof.summaries import (
    ClassCovariances,
    ClassSphericalVariances,
    ClassVariances,
    class_distributions,
)

X = np.array([[0.0, 0.0], [2.0, 4.0], [7.0, 7.0]])
"""Two samples of class "a" and one of class "b"."""


each_kind = pytest.mark.parametrize(
    ("kind", "covariance"),
    [
        (ClassCovariances, [[2.0, 4.0], [4.0, 8.0]]),
        (ClassVariances, [2.0, 8.0]),
        (ClassSphericalVariances, 5.0),
    ],
)


@each_kind
def test_the_covariance_of_two_samples(kind, covariance):
    summary = kind.summarize(X, ["a", "a", "b"])
    assert summary.means.tolist() == [[1.0, 2.0], [7.0, 7.0]]
    assert summary.covariances[0].tolist() == covariance
    assert not summary.covariances[1].any()


def cov_aggregate(counts, means, covariances):
    """Equation cov_aggregate as the paper writes it, from means that are not centred."""
    total = sum(counts)
    mean = sum(n * mu for n, mu in zip(counts, means, strict=True)) / total
    result = -total / (total - 1) * np.outer(mean, mean)
    for n, mu, covariance in zip(counts, means, covariances, strict=True):
        result = result + (n - 1) / (total - 1) * covariance
        result = result + n / (total - 1) * np.outer(mu, mu)
    return result


class TestPooling:
    def parts(self, rng, kind, sizes=(1, 4, 7)):
        features = rng.normal(size=(sum(sizes), 3)) @ rng.normal(size=(3, 3)) + 1.0
        split = np.split(features, np.cumsum(sizes)[:-1])
        parts = [
            kind.summarize(part, [0] * len(part), client_id=str(client))
            for client, part in enumerate(split)
        ]
        return features, parts

    def test_is_the_formula_of_the_paper(self, rng):
        _, parts = self.parts(rng, ClassCovariances)
        expected = cov_aggregate(
            [part.counts[0] for part in parts],
            [part.means[0] for part in parts],
            [part.covariances[0] for part in parts],
        )
        (pooled,) = class_distributions(parts)
        np.testing.assert_allclose(pooled.covariance, expected, rtol=1e-10)

    def test_gives_the_covariance_of_all_samples(self, rng):
        features, parts = self.parts(rng, ClassCovariances)
        (pooled,) = class_distributions(parts)
        np.testing.assert_allclose(pooled.mean, features.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(pooled.covariance, np.cov(features.T), rtol=1e-10)
        assert pooled.samples == len(features)

    def test_keeps_its_digits_far_from_zero(self, rng):
        features = rng.normal(size=(9, 2)) + 1e7
        parts = [
            ClassCovariances.summarize(features[i::3], [0] * 3, client_id=str(i)) for i in range(3)
        ]
        (pooled,) = class_distributions(parts)
        np.testing.assert_allclose(pooled.covariance, np.cov(features.T), rtol=1e-7)

    def test_of_one_sample_a_client_finds_the_spread_between_them(self, rng):
        features, parts = self.parts(rng, ClassCovariances, sizes=(1, 1, 1, 1))
        (pooled,) = class_distributions(parts)
        np.testing.assert_allclose(pooled.covariance, np.cov(features.T), rtol=1e-12)

    def test_goes_through_the_classes_in_order(self):
        parts = [
            ClassCovariances.summarize(X[:2], ["c", "a"], client_id="1"),
            ClassCovariances.summarize(X[2:], ["b"], client_id="2"),
        ]
        assert [one.label for one in class_distributions(parts)] == ["a", "b", "c"]
        assert merge(parts).classes.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("kind", [ClassVariances, ClassSphericalVariances])
def test_merging_variances_keeps_the_means_of_every_client(kind):
    # The spread between them is known in full only as long as they are apart.
    one, other = (kind.summarize(X[i : i + 1], ["a"], client_id=str(i)) for i in range(2))
    merged = merge([other, one])
    assert merged.means.tolist() == X[:2].tolist()
    assert merged.rows_per_client.tolist() == [1, 1]


@each_kind
def test_what_lies_within_the_clients_is_weighed_by_its_degrees_of_freedom(kind, covariance):
    assert kind.summarize(X, ["a", "a", "b"]).within_clients().tolist() == covariance


def test_the_covariance_as_a_matrix():
    assert ClassVariances.as_matrix(np.array([1.0, 2.0]), 2).tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert ClassSphericalVariances.as_matrix(np.array(3.0), 2).tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert ClassCovariances.as_matrix(np.ones((2, 2)), 2).tolist() == [[1.0, 1.0], [1.0, 1.0]]
