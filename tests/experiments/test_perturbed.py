"""The experiment of noise on class counts."""

import csv
import warnings
from dataclasses import replace

import pytest

from fedcof import FedCOF
from fedcof.data import Dirichlet
from fedcof.experiments import Clients, Execution, Source
from fedcof.experiments.declared import get_experiment
from fedcof.experiments.evaluate import evaluate
from fedcof.experiments.perturbed import NoisyCounts
from fedcof.experiments.results import Row
from fedcof.privacy import CountNoise
from fedcof.report.drawings import draw
from fedcof.report.tables import tabulate


@pytest.fixture
def clients(features):
    return Clients(Source(features), Dirichlet(12, 1.0), 0)


@pytest.mark.parametrize("noise", ["uniform", "gaussian", "laplace"])
def test_it_measures_what_clients_send_whose_sender_has_the_step(clients, noise):
    step = CountNoise(noise, 0.1)
    measured = NoisyCounts(FedCOF(0.1), step).measure(clients, Execution())
    sender = replace(clients.sender(FedCOF(0.1)), steps=(step,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, _ = evaluate(sender, clients.dealt)
    assert measured["accuracy"] == result.accuracy


def test_a_client_is_shown_before_and_after_the_noise(clients):
    counts = NoisyCounts(FedCOF(), CountNoise("uniform", 0.5)).measure(clients, Execution())
    held = clients.histogram()
    assert {name: before for name, (before, *_) in counts["class_counts"].items()} in held.values()
    for before, *after in counts["class_counts"].values():
        assert all(0.5 * before - 0.5 <= drawn <= 1.5 * before + 0.5 for drawn in after)


def test_figures_are_the_papers_and_say_what_there_is_without_noise():
    experiment = get_experiment("perturbed_accuracy").on(None, "squeezenet1.1")
    counts = {"class_counts": {"10": [4, 0, 9, 3, 5, 4], "9": [1, 0, 0, 2, 0, 1]}}
    rows = [
        Row(
            experiment.name,
            seed,
            experiment.columns(setting),
            {"accuracy": 0.5 + seed / 100, "num_means": 7, "seconds": 1.0}
            | (counts if "noise" in setting.columns() else {}),
        )
        for setting in experiment.settings()
        for seed in (0, 1)
    ]
    *curves, bars = draw(experiment, tabulate(experiment, rows))
    assert [drawing.caption.partition(":")[0] for drawing in curves] == [
        "Noisy counts",
        "Noisy counts",
        "Noisy counts (means M)",
    ]
    for drawing in curves:
        *_, level = csv.DictReader(drawing.as_csv().splitlines())
        assert level["noise"] == "no noise"
        assert float(level.get("accuracy") or level["num_means"]) in (50.5, 7)
    assert [axes.get_title(loc="left") for axes in bars.figure.axes] == [
        "uniform, ε 0.1",
        "gaussian, ε 0.1",
        "laplace, ε 0.1",
    ]
    labels = [label.get_text() for label in bars.figure.axes[0].get_xticklabels()]
    assert labels == ["9", "10"]
    first = next(csv.DictReader(bars.as_csv().splitlines()))
    assert (float(first["count"]), float(first["noisy"])) == (4, 4.2)
