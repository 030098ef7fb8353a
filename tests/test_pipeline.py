import threading

import pytest

from fedcof.pipeline import ahead, mapped_ahead


def test_items_come_in_order_and_a_bounded_number_waits():
    taken = []

    def source():
        for number in range(20):
            taken.append(number)
            yield number

    waiting = ahead(source(), depth=2)
    assert next(waiting) == 0
    assert len(taken) <= 4
    assert list(waiting) == list(range(1, 20))


def test_an_error_comes_in_its_place():
    def source():
        yield 1
        raise ValueError("broken")

    waiting = ahead(source(), depth=3)
    assert next(waiting) == 1
    with pytest.raises(ValueError, match="broken"):
        next(waiting)


def test_leaving_early_ends_the_thread_and_closes_the_source():
    closed = []

    def source():
        try:
            yield from range(100)
        finally:
            closed.append(True)

    waiting = ahead(source(), depth=2)
    next(waiting)
    waiting.close()
    assert closed == [True]
    assert not [t for t in threading.enumerate() if t.name.startswith("fedcof-ahead")]


def test_calls_run_at_a_time_and_their_results_come_in_the_order_of_the_items():
    both = threading.Barrier(2, timeout=10)

    def doubled(number):
        both.wait()  # one call alone would wait for ever
        return 2 * number

    assert list(mapped_ahead(doubled, range(6), workers=2)) == [0, 2, 4, 6, 8, 10]


def test_a_bounded_number_of_results_is_made_ahead():
    taken = []

    def source():
        for number in range(20):
            taken.append(number)
            yield number

    waiting = mapped_ahead(str, source(), workers=2)
    assert next(waiting) == "0"
    assert len(taken) <= 4
    assert list(waiting) == [str(number) for number in range(1, 20)]


def test_an_error_of_a_call_comes_in_its_place():
    waiting = mapped_ahead(lambda divisor: 6 // divisor, [3, 2, 0, 1], workers=2)
    assert [next(waiting), next(waiting)] == [2, 3]
    with pytest.raises(ZeroDivisionError):
        next(waiting)


def test_leaving_early_ends_the_threads_of_calls():
    waiting = mapped_ahead(str, range(100), workers=3)
    next(waiting)
    waiting.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("fedcof-")]
