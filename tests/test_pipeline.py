import threading

import pytest

from fedcof.pipeline import ahead


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
