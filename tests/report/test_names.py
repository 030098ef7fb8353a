import pytest

from fedcof.experiments import EXPERIMENTS
from fedcof.report.names import dataset_title, label_title, method_title, place, seeds


def test_method_says_what_tells_it_from_its_neighbours():
    setting = {"method": "fedcof", "shrinkage": 0.1, "scatter": "both", "means_per_class": 2}
    assert method_title(setting) == "FedCOF, γ 0.1, G_btw + G_with, 2 means"
    assert method_title({"method": "my-own"}) == "my-own"


@pytest.mark.parametrize(
    ("label", "title"),
    [
        ("fedcof+fedavg-lp", "FedCOF + FedAvg-LP"),
        ("fedcof-oracle+fedadam", "FedCOF oracle + FedAdam"),
        ("fedprox-pt", "FedProx-PT"),
        ("fedavg (not pre-trained)", "FedAvg (not pre-trained)"),
        ("my-own+pfpt", "my-own + PFPT"),
    ],
)
def test_run_of_training_is_named_by_where_it_starts_and_what_it_trains(label, title):
    assert method_title({"method": label}) == title


def test_a_strategy_without_a_title_is_named_once():
    # It once read "FedCOF + fedlion-lp-LP".
    assert label_title("fedcof+fedlion-lp") == "FedCOF + fedlion-LP"


def test_every_method_of_the_paper_has_a_title():
    settings = [one.columns() for known in EXPERIMENTS.values() for one in known.settings()]
    labels = {setting["method"] for setting in settings}
    assert [label for label in labels if label_title(label)[0].islower()] == []


def test_places_are_titles_and_not_ids():
    setting = {"dataset": "inat-users-120k", "backbone": "squeezenet1.1", "column": "user"}
    columns = ("dataset", "backbone", "clients", "participation")
    assert place(columns, setting | {"participation": 0.3}) == (
        "iNaturalist-Users-120K, SqueezeNet 1.1, clients by user, 30 % of the clients a round"
    )


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("table:features/tickets.npz", "tickets"),
        ("folder:/wards/north/", "north"),
        ("folder:.", "folder:."),
        ("unheard-of", "unheard-of"),
    ],
)
def test_own_data_is_called_by_its_file_or_folder(name, title):
    assert dataset_title(name) == title


def test_a_single_seed_is_one():
    assert [seeds([1, 1]), seeds([2, 5, 3])] == ["1 seed", "2 to 5 seeds"]
