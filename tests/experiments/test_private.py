"""The experiment of accuracy against privacy loss."""

import pytest

pytest.importorskip("opendp")

from fedcof.data import Dirichlet
from fedcof.experiments import Clients, Execution, Source
from fedcof.experiments.declared import get_experiment
from fedcof.experiments.private import Private
from fedcof.experiments.results import Row
from fedcof.methods import FedCOF, FedNCM
from fedcof.report.drawings import draw
from fedcof.report.tables import tabulate


def measured(features, place, loss, method=None):
    clients = Clients(Source(features), Dirichlet(10, 10.0), 0)
    return Private(method or FedNCM(), place, loss).measure(clients, Execution())


def test_every_client_s_own_noise_is_more_than_noise_on_the_sum(features):
    central, local = (measured(features, place, 8.0) for place in ("central", "local"))
    assert local["noise_on_a_mean"] == pytest.approx(10**0.5 * central["noise_on_a_mean"])


def test_the_same_seed_gives_the_same_row(features):
    assert measured(features, "central", 50.0) == measured(features, "central", 50.0)


def test_with_little_noise_a_head_is_as_good_as_the_open_one(features):
    clients = Clients(Source(features), Dirichlet(10, 10.0), 0)
    sender = clients.sender(FedCOF("auto"), transform="auto+standardize")
    head, _ = clients.solved(sender, clients.pooled(sender))
    test = clients.source.features(sender.transform, "test")
    expected = head.score(test, clients.dealt.test_labels)
    assert measured(features, "central", 100.0, FedCOF("auto"))["accuracy"] > expected - 0.1


def test_every_method_has_a_picture_of_both_and_of_none():
    experiment = get_experiment("private")
    rows = [
        Row(experiment.name, 0, experiment.columns(setting), {"accuracy": 0.5})
        for setting in experiment.settings()
    ]
    [table] = [tabulate(experiment, rows)] if rows else []
    drawings = draw(experiment, table)
    assert len(drawings) == 4
    assert all("Accuracy against privacy loss" in drawing.caption for drawing in drawings)
    assert "no privacy" in drawings[0].as_csv()
