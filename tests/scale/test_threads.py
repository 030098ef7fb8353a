"""The engine that computes in threads."""

import pytest
from test_solving import federation, fragments

from fedcof.errors import SummaryError
from fedcof.methods import FedCOF
from fedcof.scale import in_threads, solve


def summaries():
    return fragments(federation(FedCOF()))


@pytest.mark.parametrize("cores", [1, 2, 3, 50])
def test_the_head_does_not_depend_on_the_number_of_threads(cores, monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: cores)
    here, there = (
        solve(FedCOF(), summaries(), **engine).head for engine in ({}, {"engine": in_threads})
    )
    assert here.weight.tobytes() == there.weight.tobytes()


def test_nothing_to_compute_gives_nothing():
    assert list(in_threads(lambda fragment: pytest.fail("none"), [])) == []


def test_what_goes_wrong_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)

    def task(fragment):
        raise SummaryError("corrupt", "not whole")

    with pytest.raises(SummaryError, match="not whole"):
        list(in_threads(task, summaries()))
