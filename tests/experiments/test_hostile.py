"""The experiment of clients that lie."""

import pytest

from fedcof.data import Dirichlet
from fedcof.experiments import Clients, Execution, Source
from fedcof.experiments.declared import get_experiment
from fedcof.experiments.hostile import Lying
from fedcof.experiments.results import Row
from fedcof.methods import FedCOF
from fedcof.report.drawings import draw
from fedcof.report.tables import tabulate


def measured(features, lie, share, **settings):
    clients = Clients(Source(features), Dirichlet(10, 10.0), 0)
    return Lying(FedCOF(0.1), lie, share, **settings).measure(clients, Execution())


@pytest.mark.parametrize("lie", ["labels", "scale", "shift", "random"])
def test_no_lie_sets_an_honest_client_aside(features, lie):
    assert measured(features, lie, 0.2, screened=True)["honest_refused"] == 0


def test_who_lies_about_the_scale_is_set_aside_where_that_is_asked_for(features):
    taken, screened = (measured(features, "scale", 0.2, screened=on) for on in (False, True))
    assert (taken["liars_refused"], screened["liars_refused"]) == (0, 1)


def test_without_a_liar_the_head_is_that_of_one_round(features):
    head = FedCOF(0.1)
    clients = Clients(Source(features), Dirichlet(10, 10.0), 0)
    pooled = clients.pooled(clients.sender(head))
    one, _ = clients.solved(clients.sender(head), pooled)
    test = clients.dealt
    expected = one.score(test.test_features, test.test_labels)
    assert measured(features, "scale", 0.0)["accuracy"] == expected


def test_every_method_and_lie_has_a_picture_that_says_which():
    experiment = get_experiment("hostile")
    rows = [
        Row(experiment.name, 0, experiment.columns(setting), {"accuracy": 0.5, "seconds": 1.0})
        for setting in experiment.settings()
    ]
    captions = [drawing.caption for drawing in draw(experiment, tabulate(experiment, rows))]
    assert len(set(captions)) == len(captions) == 3 * 4
    assert sum("FedCOF" in one and "lie scale" in one for one in captions) == 1
