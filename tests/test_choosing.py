"""What is chosen from summaries alone: how good it is, and what it must not depend on."""

from dataclasses import replace

import numpy as np
import pytest

from fedcof.choosing import HeldOutMeans, ridge_by_evidence
from fedcof.classifiers import FedCOFClassifier
from fedcof.errors import FewMeansWarning
from fedcof.methods import Fed3R, FedCOF, FedCOFOracle, FedCOFSketch, get_method
from fedcof.scatter import ClassStatistics
from fedcof.summaries import merge

pytestmark = pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")

DIM, CLASSES, CLIENTS = 20, 4, 12


def samples(n, rng, shift=0.0):
    """Gaussian classes whose covariance has a few large directions; clients may differ."""
    spread = np.geomspace(4.0, 0.2, DIM)
    centres = np.random.default_rng(9).normal(size=(CLASSES, DIM))
    labels, clients = rng.integers(CLASSES, size=n), rng.integers(CLIENTS, size=n)
    moved = np.random.default_rng(8).normal(size=(CLIENTS, CLASSES, DIM)) * shift
    features = centres[labels] + moved[clients, labels] + rng.normal(size=(n, DIM)) * spread
    return features, labels, clients


def sent(method, features, labels, clients):
    return [
        method.summarize(features[clients == k], labels[clients == k], client_id=f"{k:02d}")
        for k in np.unique(clients).tolist()
    ]


@pytest.fixture
def federation():
    return samples(600, np.random.default_rng(0))


def chosen(method, *federation):
    head = method.solve(sent(method, *federation))
    return head.provenance.hyperparameters


@pytest.mark.parametrize("form", ["regression", "lda"])
def test_the_choice_is_near_the_best_of_a_grid(federation, form):
    features, labels, _ = samples(20_000, np.random.default_rng(1))
    method = FedCOF("auto", form=form)
    summaries = sent(method, *federation)
    best = max(
        FedCOF(shrinkage_relative=relative, form=form).solve(summaries).score(features, labels)
        for relative in np.geomspace(1e-3, 1e2, 12)
    )
    assert method.solve(summaries).score(features, labels) > best - 0.01


def test_a_head_says_what_was_chosen_and_that_it_was(federation):
    head = FedCOF("auto").solve(sent(FedCOF(), *federation))
    hyperparameters = head.provenance.hyperparameters
    assert head.provenance.automatic == ["shrinkage"]
    assert isinstance(hyperparameters["shrinkage"], float)
    again = FedCOF(hyperparameters["shrinkage"]).solve(sent(FedCOF(), *federation))
    np.testing.assert_array_equal(head.weight, again.weight)
    assert again.provenance.automatic == []


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_choice_scales_with_the_features(federation, factor):
    features, labels, clients = federation
    of_means = chosen(FedCOF("auto"), *federation)
    scaled = chosen(FedCOF("auto"), factor * features, labels, clients)
    assert scaled["shrinkage_relative"] == pytest.approx(of_means["shrinkage_relative"], rel=1e-6)
    assert scaled["shrinkage"] == pytest.approx(of_means["shrinkage"] * factor**2, rel=1e-6)
    ridges = (
        chosen(Fed3R("auto"), each, labels, clients)["ridge"]
        for each in (features, factor * features)
    )
    assert next(ridges) * factor**2 == pytest.approx(next(ridges), rel=1e-6)


@pytest.mark.parametrize("method", [FedCOF("auto"), Fed3R("auto"), FedCOFOracle("auto")])
def test_the_order_of_arrival_and_a_merge_change_no_bit(federation, method):
    summaries = sent(method, *federation)
    expected = method.solve(summaries).to_bytes()
    assert method.solve(summaries[::-1]).to_bytes() == expected
    merged = [merge(summaries[3:7]), *summaries[:3], *summaries[7:]]
    np.testing.assert_allclose(method.solve(merged).weight, method.solve(summaries).weight)


def test_leaving_a_row_out_is_solving_without_it():
    """The scatter of the means of a class is e e^T smaller without one of them."""
    rng = np.random.default_rng(0)
    means, counts = rng.normal(size=(5, 3)), np.array([1, 2, 3, 4, 5])
    labels = np.zeros(5, dtype=np.int64)
    statistics = ClassStatistics.gather([means], counts, labels)
    class_means, scatter = statistics.scatter_of_means()
    held_out = HeldOutMeans.of(statistics, class_means)
    for row in range(5):
        rest = np.arange(5) != row
        _, without = ClassStatistics.gather(
            [means[rest]], counts[rest], labels[rest]
        ).scatter_of_means()
        e = held_out.deviations[row]
        np.testing.assert_allclose(scatter - np.outer(e, e), without, atol=1e-12)


def test_the_spread_of_means_tells_shift():
    rng = np.random.default_rng(0)
    for shift, is_shift in ((0.0, False), (5.0, True)):
        features, labels, clients = samples(3000, rng, shift)
        keep = rng.random(3000) < np.geomspace(0.05, 1, CLIENTS)[clients]
        parts = sent(FedCOF(), features[keep], labels[keep], clients[keep])
        statistics = ClassStatistics.of(parts)
        held_out = HeldOutMeans.of(statistics, statistics.class_means())
        assert held_out.growth.is_shift == is_shift


def test_means_of_equally_many_samples_tell_no_shift():
    statistics = ClassStatistics.gather([np.eye(4)], np.full(4, 7), np.array([0, 0, 1, 1]))
    held_out = HeldOutMeans.of(statistics, statistics.class_means())
    assert np.isnan(held_out.growth.exponent)
    assert not held_out.growth.is_shift


def test_evidence_is_highest_at_the_ridge_that_made_the_weights():
    """Labels from weights of a known prior variance: the ridge is the ratio of the variances."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 30))
    labels = np.argmax(features @ rng.normal(size=(30, 3)) + rng.normal(size=(400, 3)) * 9, axis=1)
    one_hot = np.eye(3)[labels]
    strong = ridge_by_evidence(features.T @ features, one_hot.T @ features, one_hot.sum(0))
    labels = np.argmax(features @ rng.normal(size=(30, 3)), axis=1)
    one_hot = np.eye(3)[labels]
    weak = ridge_by_evidence(features.T @ features, one_hot.T @ features, one_hot.sum(0))
    assert weak < strong


def test_one_client_with_one_mean_a_class():
    features, labels, _ = samples(100, np.random.default_rng(0))
    with pytest.warns(FewMeansWarning):
        head = FedCOF("auto").solve([FedCOF().summarize(features, labels)])
    assert head.provenance.hyperparameters["shrinkage"] > 0
    assert np.isfinite(head.weight).all()


def test_classes_that_one_client_holds():
    features, labels, clients = samples(300, np.random.default_rng(0))
    clients = np.where(labels == 0, 0, clients)
    assert chosen(FedCOF("auto"), features, labels, clients)["shrinkage"] > 0


def test_two_classes_at_two_clients():
    features, labels, clients = samples(100, np.random.default_rng(0))
    hyperparameters = chosen(FedCOF("auto"), features, labels % 2, clients % 2)
    assert np.isfinite(hyperparameters["shrinkage"])


def test_more_dimensions_than_samples():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(30, 200)), np.arange(30) % 3
    for name in ("fedcof", "fed3r", "fedcof-oracle"):
        method = get_method(name, **{"ridge" if name == "fed3r" else "shrinkage": "auto"})
        head = method.solve(sent(method, features, labels, np.arange(30) // 5))
        assert np.isfinite(head.weight).all()


def test_every_sample_a_client():
    features, labels, _ = samples(300, np.random.default_rng(0))
    head = FedCOFClassifier(shrinkage="auto").fit(features, labels).head_
    assert head.provenance.hyperparameters["shrinkage"] > 0


def test_very_many_means_are_left_out_in_part():
    rng = np.random.default_rng(0)
    statistics = ClassStatistics.gather(
        [rng.normal(size=(9000, 2))], np.ones(9000, dtype=np.int64), np.arange(9000) % 3
    )
    held_out = HeldOutMeans.of(statistics, statistics.class_means())
    assert len(held_out.counts) == 3000
    assert held_out.shares.sum() == pytest.approx(1)


@pytest.mark.parametrize("form", ["regression", "lda"])
def test_a_sketch_chooses_its_shrinkage_and_rho(federation, form):
    method = FedCOFSketch(rank=4, form=form, priors="uniform" if form == "lda" else "counts")
    parts = sent(method, *federation)
    head = method.solve(parts)
    hyperparameters = head.provenance.hyperparameters
    assert head.provenance.automatic == ["shrinkage", "rho"]
    assert 0 <= hyperparameters["rho"] <= 1
    merged = method.solve([merge(parts[3:8]), *parts[:3], *parts[8:]])
    assert merged.provenance.hyperparameters == hyperparameters
    features, labels, _ = samples(20_000, np.random.default_rng(1))
    best = max(
        replace(method, rho=rho, shrinkage_relative=relative).solve(parts).score(features, labels)
        for rho in (0.0, 0.5, 1.0)
        for relative in (0.01, 0.1, 1.0)
    )
    assert head.score(features, labels) > best - 0.015


def test_a_sketch_of_one_client_has_nothing_to_choose_from():
    features, labels, _ = samples(100, np.random.default_rng(0))
    method = FedCOFSketch(rank=4)
    head = method.solve([method.summarize(features, labels)])
    assert head.provenance.hyperparameters["rho"] == 0.5
