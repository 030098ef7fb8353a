"""The engine that computes in threads."""

import pytest
import threadpoolctl
from test_solving import federation, fragments

from fedcof.errors import SummaryError
from fedcof.methods import FedCOF
from fedcof.scale import in_threads, solve
from fedcof.scale.solving import one_thread


def summaries():
    return fragments(federation(FedCOF()))


@pytest.mark.parametrize("cores", [1, 2, 3, 50])
def test_the_head_does_not_depend_on_the_number_of_threads(cores, monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: cores)
    here, there = (
        solve(FedCOF(), summaries(), **engine).head for engine in ({}, {"engine": in_threads})
    )
    assert here.weight.tobytes() == there.weight.tobytes()


def test_blas_has_its_threads_again_where_two_fragments_do_not_fit_together():
    # A thread that was still at work gave back the one that it had found, for good.
    def at_work(task, items):
        with one_thread():
            yield from map(task, items)

    first, *others = federation(FedCOF(), dim=7)
    parts = [first, *federation(FedCOF())[1:], *others]
    with threadpoolctl.threadpool_limits(2, "blas"):
        before = threadpoolctl.threadpool_info()
        with pytest.raises(SummaryError, match="'dim'") as raised:
            solve(FedCOF(), fragments(parts, size=1), engine=at_work)
        del raised
        assert threadpoolctl.threadpool_info() == before


def test_nothing_to_compute_gives_nothing():
    assert list(in_threads(lambda fragment: pytest.fail("none"), [])) == []


def test_what_goes_wrong_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)

    def task(fragment):
        raise SummaryError("corrupt", "not whole")

    with pytest.raises(SummaryError, match="not whole"):
        list(in_threads(task, summaries()))
