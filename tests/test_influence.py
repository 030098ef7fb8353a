"""How much a head owes to each client."""

import numpy as np
import pytest

from fedcof.influence import influences, too_influential
from fedcof.methods import FedCOF, FedNCM

pytestmark = pytest.mark.filterwarnings("error")

CLASSES, DIM = 3, 8


def federation(change=lambda x, y: (x, y), sites=8):
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(CLASSES, DIM))
    found = []
    for site in range(sites):
        labels = rng.integers(CLASSES, size=40)
        samples = centres[labels] + rng.normal(size=(40, DIM)), labels
        found.append(
            FedCOF().summarize(*(change(*samples) if site == 2 else samples), client_id=f"{site}")
        )
    return found


@pytest.mark.parametrize("most", [3, 100])
@pytest.mark.parametrize(
    "change",
    [
        lambda x, y: (5 * x, y),
        lambda x, y: (-x, y),
        lambda x, y: (x, (y + 1) % CLASSES),
        lambda x, y: (np.repeat(x, 200, axis=0), np.repeat(y, 200)),
    ],
    ids=["scale", "sign", "labels", "count"],
)
def test_who_lies_moves_the_head_most(change, most):
    found = influences(FedCOF(), federation(change), most=most)
    assert found[0].client_ids == ("2",)
    assert found[0].shift > 1.5 * found[1].shift
    assert [one.shift for one in found] == sorted((one.shift for one in found), reverse=True)


def test_it_is_the_distance_to_the_head_without_the_client():
    parts = federation()
    [one] = [one for one in influences(FedCOF(), parts) if one.client_ids == ("5",)]
    whole = FedCOF().solve(parts, screened=True)
    without = FedCOF().solve([p for p in parts if p.client_ids != ("5",)], screened=True)
    moved = np.square(whole.weight - without.weight).sum(axis=1)
    assert one.shift == pytest.approx(np.sqrt(moved.mean()))


def test_a_class_of_one_client_is_all_its_own():
    parts = [
        FedNCM().summarize(np.eye(2), labels, client_id=name)
        for name, labels in {"a": [0, 1], "b": [0, 1], "c": [0, 2]}.items()
    ]
    assert influences(FedNCM(), parts)[0].client_ids == ("c",)


def test_who_moves_the_head_too_far_is_left_out_and_the_others_stay():
    parts = federation(lambda x, y: (-x, y))
    assert [one.client_ids for one in too_influential(FedCOF(), parts, 0.8)] == [("2",)]
    assert too_influential(FedCOF(), parts, 0.8, accepted=["2"]) == []
    assert too_influential(FedCOF(), federation(), 0.8) == []


def test_of_two_clients_none_is_left_out():
    assert too_influential(FedCOF(), federation(sites=2), 0.0) == []


def test_of_many_means_some_say_how_many_labels_change(monkeypatch):
    parts = federation(lambda x, y: (-x, y), sites=30)
    all_of_them = influences(FedCOF(), parts)[0]
    monkeypatch.setattr("fedcof.influence._COMPARED", 60)
    some = influences(FedCOF(), parts)[0]
    assert some.shift == all_of_them.shift
    assert some.changed == pytest.approx(all_of_them.changed, abs=0.1)


def test_of_a_federation_with_many_means_fewer_clients_are_left_out(monkeypatch):
    monkeypatch.setattr("fedcof.influence._ROWS", 50)
    assert len(influences(FedCOF(), federation())) == 2
