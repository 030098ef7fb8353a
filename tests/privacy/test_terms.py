from fractions import Fraction
from math import ceil, comb, floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcof.errors import SecureError, SettingError
from fedcof.privacy.secure.graph import Circle
from fedcof.privacy.secure.messages import digest
from fedcof.privacy.secure.terms import Plan, Terms, plan


def chance(clients, marked, drawn, at_least):
    """The exact chance that so many of some of a client's fellows drawn are marked."""
    others = clients - 1
    ways = sum(
        comb(marked, hit) * comb(others - marked, drawn - hit)
        for hit in range(at_least, min(marked, drawn) + 1)
        if drawn - hit <= others - marked
    )
    return Fraction(ways, comb(others, drawn))


@pytest.mark.parametrize("clients", [129, 200, 1000, 3000])
@pytest.mark.parametrize("shares", [(0.05, 0.05), (0.1, 0.05), (0.1, 0.1)])
def test_the_chances_of_a_plan_are_as_small_as_is_said(clients, shares):
    terms = Terms(*shares)
    made = plan(clients, terms)
    half = made.neighbours // 2
    colluders, gone = ceil(terms.colluders * clients), floor(terms.dropouts * clients)
    unsafe = chance(clients, colluders, half, made.threshold - half - 1)
    assert 2 * clients * unsafe <= Fraction(1, 2**40) * Fraction(1001, 1000)
    spare = made.neighbours + 1 - made.threshold
    short = (clients - gone) * chance(clients, gone, made.neighbours, spare + 1)
    short += gone * chance(clients, gone - 1, made.neighbours, spare)
    assert short <= Fraction(1, 2**30) * Fraction(1001, 1000)
    assert not Plan(made.neighbours, made.threshold - 1).is_safe(clients, terms)


def test_neighbours_grow_with_the_logarithm_of_the_clients():
    counts = [plan(clients, Terms()).neighbours for clients in (1000, 2000, 4000, 8000)]
    steps = np.diff(counts)
    assert (steps > 0).all()
    assert (steps <= 12).all()


@given(st.integers(3, 128), st.floats(0, 0.3))
@settings(deadline=None)
def test_few_clients_are_all_neighbours_and_two_thresholds_share_an_honest_one(clients, share):
    terms = Terms(share, 0.0)
    colluders = ceil(share * clients)
    made = plan(clients, terms)
    assert made.neighbours == clients - 1
    assert 2 * (made.threshold - colluders) > clients - colluders
    assert made.is_safe(clients, terms)
    assert not Plan(made.neighbours, made.threshold - 1).is_safe(clients, terms)


@pytest.mark.parametrize(
    "wrong", [Plan(9, 0), Plan(9, 11), Plan(10, 6), Plan(7, 6), Plan(0, 1), Plan(2**32 - 1, 6)]
)
def test_plans_that_cannot_be_are_not_safe(wrong):
    assert not wrong.is_safe(10, Terms())


def test_terms_that_no_graph_meets_are_refused():
    with pytest.raises(SecureError, match="fewer colluders or drop-outs"):
        plan(10, Terms(0.3, 0.4))
    with pytest.raises(SecureError):
        plan(2, Terms())
    with pytest.raises(SettingError):
        Terms(colluders=-0.1)


STATEMENTS = [digest(b"statement", bytes([number])) for number in range(60)]


@given(st.integers(3, 60), st.data())
def test_neighbours_are_mutual_and_as_many_as_asked_for(clients, data):
    count = data.draw(st.sampled_from([*range(2, clients - 1, 2), clients - 1]))
    circle = Circle(STATEMENTS[:clients], count)
    neighbours = [circle.neighbours(number) for number in range(clients)]
    for number, others in enumerate(neighbours):
        assert len(set(others)) == count
        assert number not in others
        assert list(others) == sorted(others)
        assert all(number in neighbours[other] for other in others)


def test_one_other_key_gives_another_circle():
    one = Circle(STATEMENTS, 6)
    other = Circle([*STATEMENTS[:-1], bytes(32)], 6)
    same = sum(one.neighbours(number) == other.neighbours(number) for number in range(60))
    assert same < 6


def test_every_place_on_the_circle_is_as_likely():
    """How often two clients are neighbours, over many circles: 6 of 19."""
    clients, circles = 20, 2000
    met = sum(
        1 in Circle([digest(bytes([n]), str(c).encode()) for n in range(clients)], 6).neighbours(0)
        for c in range(circles)
    )
    expected = 6 / 19
    assert abs(met / circles - expected) < 5 * np.sqrt(expected * (1 - expected) / circles)


def opened(circle, alive, colluding, threshold):
    """Return who of the survivors that a server names has enough answers, those of others too."""
    while True:
        stay = {
            v
            for v in alive
            if 1 + len(set(circle.neighbours(v)) & (alive | colluding)) >= threshold
        }
        if stay == alive:
            return alive
        alive = stay


@pytest.mark.parametrize(("threshold", "holds"), [(9, True), (8, False)])
def test_what_a_lying_server_opens_goes_all_around_the_circle(threshold, holds):
    """5 neighbours on a side, 2 of them colluding at most: (1) asks for more than 8 answers."""
    circle = Circle(STATEMENTS, 10)
    colluding = {circle._order[place] for place in (0, 1, 30, 31)}
    rng = np.random.default_rng(0)
    all_around = []
    for _ in range(150):
        start, length = rng.integers(60), rng.integers(12, 61)
        named = {circle._order[(start + step) % 60] for step in range(length)} - colluding
        some = set(rng.choice(60, rng.integers(0, 4), replace=False).tolist())
        alive = opened(circle, named - some, colluding, threshold)
        if alive:
            places = sorted(circle._place[client] for client in alive)
            gaps = np.diff([*places, places[0] + 60])
            all_around.append(gaps.max() <= 5)
    assert len(all_around) > 5
    assert all(all_around) == holds


def test_fewer_clients_than_the_least_are_not_refused_for_drop_outs() -> None:
    """It said that two of two clients had to stay, and that two would."""
    with pytest.raises(SecureError, match="2 clients, and the sum is over 3 at least"):
        plan(2, Terms())
