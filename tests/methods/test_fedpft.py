import numpy as np
import pytest

from fedcof import from_bytes
from fedcof.methods.fedpft import FedPFTDiagonal, FedPFTSpherical
from fedcof.summaries import ClassSphericalVariances, ClassVariances


@pytest.mark.parametrize(
    ("method", "moments"),
    [(FedPFTDiagonal(), ClassVariances), (FedPFTSpherical(), ClassSphericalVariances)],
)
def test_one_component_is_the_mean_and_the_variances_of_the_class(blobs, method, moments):
    features, labels, _ = blobs
    own, other = method.summarize(features, labels), moments.summarize(features, labels)
    assert own.formula_bytes == other.formula_bytes
    for name in ("classes", "counts", "means", "covariances"):
        np.testing.assert_array_equal(getattr(own, name), getattr(other, name))


def test_two_heaps_of_a_class_are_its_components(rng):
    heaps = np.repeat([[0.0, 0.0], [50.0, 0.0]], [30, 10], axis=0)
    features = heaps + rng.normal(size=(40, 2))
    summary = FedPFTSpherical(components=2).summarize(features, ["x"] * 40, rng=0)
    assert sorted(summary.counts.tolist()) == [10, 30]
    np.testing.assert_allclose(np.sort(summary.means[:, 0]), [0, 50], atol=1.5)
    np.testing.assert_allclose(summary.covariances, 1, atol=0.5)


def test_a_class_of_few_samples_has_fewer_components(rng):
    summary = FedPFTDiagonal(components=5).summarize(rng.normal(size=(6, 2)), [0, 1, 1, 1, 1, 1])
    assert summary.classes.tolist().count(0) == 1
    assert summary.classes.tolist().count(1) <= 2
    assert summary.total == 6


def test_it_tells_classes_by_their_components_and_draws_them_from_its_seed(rng, deal):
    labels = np.tile([0, 1, 2], 60)
    features = np.eye(3)[labels] * 6 + rng.normal(size=(180, 3))
    method = FedPFTDiagonal(components=2, samples_per_class=50)
    sent = deal(method, features, labels, np.arange(180) % 4, rng=0)
    parts = [from_bytes(summary.to_bytes()) for summary in sent]
    heads = [method.seeded(seed).solve(parts) for seed in (1, 1, 2)]
    assert heads[0].score(features, labels) > 0.95
    assert heads[0].weight.tobytes() == heads[1].weight.tobytes() != heads[2].weight.tobytes()
    assert heads[0].predict_proba(features).shape == (180, 3)
