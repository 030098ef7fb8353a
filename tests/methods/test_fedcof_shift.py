import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof import FedCOF, SummaryError
from fedcof.methods.fedcof_shift import FedCOFGated, FedCOFWithin
from fedcof.scatter import ClassStatistics


def _statistics(features, labels, clients, counts=None):
    rows = np.asarray(features, np.float64)
    ones = np.ones(len(rows), dtype=np.int64) if counts is None else np.asarray(counts)
    return ClassStatistics.gather([rows], ones, np.asarray(labels), np.asarray(clients))


def test_a_small_case_by_hand():
    # Class 0 at two clients, two means of 2 samples each: 0, 2 and 10, 14. Class 1 at one.
    statistics = _statistics(
        [[0.0], [2.0], [10.0], [14.0], [5.0]], [0, 0, 0, 0, 1], [0, 0, 1, 1, 0], [2, 2, 2, 2, 3]
    )
    by_client, within = statistics.by_client()
    assert by_client.means[0].ravel() == pytest.approx([1.0, 5.0, 12.0])
    assert by_client.counts.tolist() == [4, 3, 4]
    assert within.item() == pytest.approx(2 * (1 + 1 + 4 + 4))  # of 2 degrees of freedom
    between = 4 * 5.5**2 * 2
    found = FedCOFWithin().estimate(statistics)
    assert found.within_scatter.item() == pytest.approx((11 - 3) * 20 / 2 + between)
    assert found.class_means.ravel() == pytest.approx([6.5, 5.0])


@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(1, 3))
def test_with_every_sample_a_mean_it_is_the_scatter_of_the_samples(seed, clients, classes):
    rng = np.random.default_rng(seed)
    labels, owners = rng.integers(classes, size=30), rng.integers(clients, size=30)
    features = rng.normal(size=(30, 3)) + 5.0 * rng.normal(size=(clients, 3))[owners]
    exact = ClassStatistics.of_samples(features, labels).scatter()
    found = FedCOFWithin().estimate(_statistics(features, labels, owners))
    np.testing.assert_allclose(found.within_scatter, exact.within_scatter, rtol=1e-9, atol=1e-9)


@pytest.fixture
def sites():
    """Twelve sites with 40 samples of each of 3 classes, moved by a shift of a size."""

    def make(shift, method):
        rng = np.random.default_rng(0)
        root = rng.normal(size=(6, 6))
        parts = []
        for site in range(12):
            labels = np.repeat(np.arange(3), 40)
            moved = shift * rng.normal(size=(3, 6))[labels]
            features = rng.normal(size=(120, 6)) @ root + moved
            parts.append(method.summarize(features, labels, client_id=f"{site:02}", rng=site))
        return ClassStatistics.of(parts), root.T @ root

    return make


def test_shift_is_counted_once_and_not_as_often_as_there_are_samples(sites):
    statistics, covariance = sites(3.0, FedCOFGated(means_per_class=4))
    true = covariance + 9.0 * np.eye(6)
    errors = {
        method.name: np.linalg.norm(method.estimate(statistics).covariance(0.0) - true)
        for method in (FedCOF(), FedCOFWithin(), FedCOFGated())
    }
    assert errors["fedcof-within"] < errors["fedcof"] / 5
    assert errors["fedcof-gated"] == pytest.approx(errors["fedcof-within"], rel=0.1)


def test_without_shift_the_gate_is_open(sites):
    method = FedCOFGated(means_per_class=2)
    statistics, covariance = sites(0.0, method)
    by_client, within = statistics.by_client()
    _, between = by_client.scatter_of_means()
    of_within, of_between = 36, 33
    weight = method.weight_between(within / of_within, of_within, between / of_between, of_between)
    assert 0.2 < weight <= of_between / (of_within + of_between)
    errors = [
        np.linalg.norm(other.estimate(statistics).covariance(0.0) - covariance)
        for other in (method, FedCOFWithin())
    ]
    assert errors[0] < errors[1]


def test_the_weight_of_estimates_that_agree_is_that_of_their_degrees_of_freedom():
    weight = FedCOFGated().weight_between(np.eye(3), 10, np.eye(3), 30)
    assert weight == pytest.approx(0.75)
    assert FedCOFGated().weight_between(np.eye(3), 10, 1e6 * np.eye(3), 30) < 1e-9


@pytest.mark.parametrize("method", [FedCOFWithin(), FedCOFGated()], ids=lambda m: m.name)
@pytest.mark.filterwarnings("ignore::fedcof.FewMeansWarning")
class TestBoth:
    def test_one_mean_a_client_is_refused(self, method, blobs, deal):
        parts = deal(FedCOF(), *blobs)
        with pytest.raises(SummaryError, match="no client sent two means of one class"):
            method.solve(parts)

    def test_one_client_is_enough(self, method, blobs):
        features, labels, _ = blobs
        head = method.solve([method.summarize(features, labels, rng=0)])
        assert head.score(features, labels) > 0.6
