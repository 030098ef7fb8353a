"""What the server makes of replies that lie."""

import numpy as np
import pytest

from fedcof.training.checking import accepted
from fedcof.training.exchange import Replies, Update

STATE = {"weight": np.zeros((2, 3), np.float32)}


def reply(examples=10, moved=1.0):
    return Update({"weight": np.full((2, 3), moved, np.float32)}, examples, 0.5)


def accept(samples=None, **updates):
    used, refused = accepted(Replies(updates), updates, STATE, samples or {})
    return len(used), refused


def test_a_number_of_examples_above_the_clients_samples_is_refused():
    used, [reason] = accept({"a": 10, "b": 10}, a=reply(), b=reply(2**40))
    assert used == 1
    assert reason == f"client 'b': num-examples is {2**40}, the client has 10 samples"


def test_a_client_may_have_gained_a_few_samples():
    assert accept({"a": 10}, a=reply(11)) == (1, [])


@pytest.mark.parametrize("moved", [100.0, -1000.0, 1e30])
def test_parameters_that_moved_much_farther_than_the_others_are_refused(moved):
    used, [reason] = accept(a=reply(), b=reply(), c=reply(moved=moved), d=reply())
    assert used == 3
    assert reason.startswith("client 'c': its parameters moved")


def test_a_client_with_more_samples_may_move_farther():
    assert accept(a=reply(), b=reply(), c=reply(examples=1000, moved=90)) == (3, [])


def test_of_two_updates_none_is_compared():
    assert accept(a=reply(), b=reply(moved=1e6)) == (2, [])


def test_clients_that_do_not_move_at_all_refuse_nobody():
    assert accept(a=reply(moved=0), b=reply(moved=0), c=reply()) == (3, [])
