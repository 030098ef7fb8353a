"""The experiment of membership inference."""

import csv

import numpy as np
import pytest

from fedcof import FedNCM
from fedcof.data import Dirichlet, FeatureTable
from fedcof.experiments import Clients, Execution, FeatureSet, Source
from fedcof.experiments.audit import OnCanary, OnHead, OnMeans, Protection, clipped, margins
from fedcof.experiments.declared import get_experiment
from fedcof.experiments.results import Row
from fedcof.heads import LinearHead
from fedcof.privacy import CountNoise, MinSamples
from fedcof.report.drawings import draw
from fedcof.report.tables import tabulate

NONE = Protection("none")


@pytest.fixture(scope="module")
def clients():
    """Forty clients of eight classes in 24 dimensions: many classes have one sample at a client."""
    rng = np.random.default_rng(0)

    def draw_samples(count):
        labels = np.arange(count) % 8
        points = rng.normal(size=(8, 24))[labels] + 3 * rng.normal(size=(count, 24))
        return FeatureTable(points.astype(np.float32), labels, tuple("01234567"), {})

    source = Source(FeatureSet(draw_samples(800), draw_samples(800), "fingerprint"))
    return Clients(source, Dirichlet(40, 1.0), 0)


def measure(procedure, clients):
    return procedure.measure(clients, Execution())


def test_a_sample_that_is_sent_as_it_is_is_found_whatever_the_noise_on_its_count(clients):
    for protection in (NONE, Protection("noise", (CountNoise("uniform", 0.1),))):
        measured = measure(OnMeans(protection, single=True), clients)
        assert measured["found_at_1"] == 1
        assert measured["measured_epsilon"] > 1.5  # the trials here allow no more


def test_a_sample_that_is_withheld_is_not_found(clients):
    measured = measure(OnMeans(Protection("site", (MinSamples(2),)), single=True), clients)
    assert (measured["attack_area"], measured["measured_epsilon"]) == (0.5, 0)


@pytest.mark.parametrize("single", [True, False])
def test_local_noise_stays_below_what_it_states(clients, single):
    pytest.importorskip("opendp")
    measured = measure(OnMeans(Protection("local", epsilon=1.0), single), clients)
    assert measured["measured_epsilon"] < 1
    assert measure(OnMeans(NONE, single), clients)["attack_area"] > measured["attack_area"] + 0.1


@pytest.mark.parametrize("seen", ["sums", "head"])
def test_who_knows_all_but_one_sample_sees_less_than_is_stated(clients, seen):
    pytest.importorskip("opendp")
    protection = Protection("central", epsilon=4.0)
    measured = measure(OnCanary(FedNCM(), protection, seen, trials=400), clients)
    assert 0 <= measured["measured_epsilon"] < 4
    if seen == "sums":
        assert measured["attack_area"] > 0.6


def test_noise_of_the_mechanism_that_is_too_small_is_caught(clients, monkeypatch):
    pytest.importorskip("opendp")
    from fedcof.privacy.differential import SimulatedNoise

    whole = SimulatedNoise.draw
    monkeypatch.setattr(
        SimulatedNoise, "draw", lambda self, scale, size: whole(self, scale / 4, size)
    )
    procedure = OnCanary(FedNCM(), Protection("central", epsilon=1.0), trials=2000)
    assert measure(procedure, clients)["measured_epsilon"] > 1


def test_counts_that_are_not_noised_are_caught(clients, monkeypatch):
    pytest.importorskip("opendp")
    from fedcof.privacy.differential import CentralPrivacy

    def without_counts(self):
        draws = [
            self.noise.draw(each.share, each.size) * (name != "counts")
            for name, each in self.releases.items()
        ]
        return np.concatenate(draws).view(np.uint64)

    monkeypatch.setattr(CentralPrivacy, "share_of_noise", without_counts)
    procedure = OnCanary(FedNCM(), Protection("central", epsilon=1.0), trials=400)
    assert measure(procedure, clients)["measured_epsilon"] > 3


def test_members_of_a_head_are_found_where_it_is_of_few_samples(clients):
    measured = measure(OnHead(FedNCM(), NONE, models=8, targets=400), clients)
    assert measured["attack_area"] > 0.55
    assert "measured_epsilon" not in measured


def test_margins_of_classes_with_and_without_a_row():
    head = LinearHead(weight=np.array([[1.0, 0.0], [0.0, 2.0]]), classes=np.array([0, 2]))
    features = np.array([[1.0, 1.0], [3.0, 1.0], [1.0, 5.0]])
    assert margins(head, features, np.array([0, 0, 1])).tolist() == [-1, 1, -9]


def test_long_features_are_clipped_and_others_are_not():
    found = clipped(np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), 1.0)
    np.testing.assert_allclose(found, [[0.6, 0.8], [0.3, 0.4], [0, 0]], rtol=1e-8)
    assert (np.linalg.norm(found, axis=1) <= 1).all()


def test_figures_have_a_panel_an_attack_and_what_is_stated():
    experiment = get_experiment("audit")
    measured = {
        "found_at_1": 0.5,
        "attack_area": 0.9,
        "roc": [[0.01, 0.5], [1.0, 1.0]],
        "measured_epsilon": 0.4,
        "seconds": 1.0,
    }
    rows = [
        Row(experiment.name, 0, experiment.columns(setting), measured)
        for setting in experiment.settings()
    ]
    rates, stated = draw(experiment, tabulate(experiment, rows))
    titles = [axes.get_title(loc="left") for axes in rates.figure.axes]
    assert [title for title in titles if title] == [
        "single samples",
        "class means",
        "head, FedCOF, γ 0.1",
        "head, FedNCM",
    ]
    first = next(csv.DictReader(rates.as_csv().splitlines()))
    assert (first["protection"], float(first["found"])) == ("none", 0.5)
    for row in csv.DictReader(stated.as_csv().splitlines()):
        assert float(row["measured"]) < float(row["stated"])
