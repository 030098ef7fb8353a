"""How much a head owes to each client."""

import numpy as np
import pytest

from fedcof.influence import influences, too_influential
from fedcof.methods import Fed3R, FedCOF, FedNCM, get_method

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


def _plainly(method, parts):
    """Return who moves the head how far, each head solved from the summaries of the others."""
    whole = method.solve(parts, screened=True)
    moved = {}
    for left_out in parts:
        others = [part for part in parts if part is not left_out]
        head = method.solve(others, screened=True)
        squares = np.ones(len(whole.classes))
        _, here, there = np.intersect1d(whole.classes, head.classes, return_indices=True)
        lengths = [np.linalg.norm(h.weight, axis=1, keepdims=True) for h in (whole, head)]
        moved_rows = (whole.weight / lengths[0])[here] - (head.weight / lengths[1])[there]
        squares[here] = np.square(moved_rows).sum(axis=1)
        moved[left_out.client_ids] = np.sqrt(squares.mean())
    return moved


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize(
    "method",
    [
        FedCOF(),
        FedCOF(scatter="both"),
        FedCOF(form="lda"),
        FedCOF(means_per_class=3),
        FedCOF(shrinkage_relative=0.5),
        FedCOF(robust=True),
        get_method("fedcof-pooled"),
        FedNCM(),
        Fed3R(),
    ],
    ids=lambda method: "-".join(map(str, [method.name, *vars(method).values()])),
)
def test_leaving_out_gives_what_solving_without_the_client_gives(method, offset, dtype):
    rng = np.random.default_rng(1)
    parts = []
    for site in range(9):  # class 6 is at site 0 alone, and classes 4 and 5 at two sites each
        labels = rng.integers(4, size=30) if site else np.repeat(np.arange(7), 5)
        if site in (4, 5):
            labels[:3] = site
        samples = rng.normal(size=(len(labels), DIM)) + np.eye(8, DIM)[labels] + offset
        name = {"client_id": f"{site}", "rng": 0}
        parts.append(method.summarize(samples.astype(dtype), labels, **name))
    expected = _plainly(method, parts)
    found = influences(method, parts, most=20)
    assert {one.client_ids for one in found} == expected.keys()
    for one in found:
        assert one.shift == pytest.approx(expected[one.client_ids], rel=1e-6, abs=1e-8)


@pytest.mark.filterwarnings("default")
def test_what_one_client_hides_of_the_others_is_pooled_again():
    """A regression test: less of a scatter 10^8 times as large, the others' is rounding."""
    parts = federation(lambda x, y: (1e4 * x, y))
    expected = _plainly(FedCOF(), parts)
    for one in influences(FedCOF(), parts, most=20):
        assert one.shift == pytest.approx(expected[one.client_ids], rel=1e-4)


def test_one_client_alone_has_all_of_the_head():
    """A regression test: it raised, as nothing can be pooled of no summary."""
    for method in (FedCOF(shrinkage=1.0), FedNCM()):
        alone = method.summarize(np.eye(4), [0, 1, 0, 1], client_id="a")
        [one] = influences(method, [alone])
        assert (one.client_ids, one.shift) == (("a",), 1.0)


def test_many_classes_are_gone_through_in_parts_with_the_same_result(monkeypatch):
    together = influences(FedCOF(), federation())
    monkeypatch.setattr("fedcof.influence._SCORES", 2 * DIM)
    parts = influences(FedCOF(), federation())
    assert [one.client_ids for one in parts] == [one.client_ids for one in together]
    for one, other in zip(parts, together, strict=True):
        assert one.shift == pytest.approx(other.shift, rel=1e-12)
        assert one.changed == pytest.approx(other.changed, rel=1e-12)
