"""Work that is done ahead of its use, in threads, with a bounded number of results waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")
_END = object()


def ahead(items: Iterable[T], depth: int) -> Generator[T]:
    """Yield what an iterable yields, which a thread takes from it meanwhile.

    Parameters
    ----------
    items : iterable
        An error that it raises is raised here, in its place. A generator is closed at the end, also
        where the caller leaves early.
    depth : int
        At most so many are taken ahead of the one in use.

    Examples
    --------
    >>> list(ahead(iter("abc"), depth=2))
    ['a', 'b', 'c']
    """
    iterator = iter(items)
    pool = ThreadPoolExecutor(1, thread_name_prefix="fedcof-ahead")
    try:
        pending = deque(pool.submit(next, iterator, _END) for _ in range(depth))
        while (item := pending.popleft().result()) is not _END:
            pending.append(pool.submit(next, iterator, _END))
            yield item  # type: ignore[misc]  # it is not _END
    finally:
        pool.shutdown(cancel_futures=True)
        if isinstance(iterator, Generator):
            iterator.close()


def mapped_ahead(function: Callable[[S], T], items: Iterable[S], workers: int) -> Generator[T]:
    """Yield what a function makes of items, in their order; threads call it meanwhile.

    Parameters
    ----------
    function : callable
        An error that it raises is raised here, in its place.
    items : iterable
        Taken in one thread, as `ahead` takes them.
    workers : int
        So many calls run at a time, and as many results are made ahead of the one in use.

    Examples
    --------
    >>> list(mapped_ahead(len, ["a", "", "bcd"], workers=2))
    [1, 0, 3]
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="fedcof-mapped")
    calls = (pool.submit(function, item) for item in items)
    try:
        with closing(ahead(calls, depth=workers)) as waiting:
            for call in waiting:
                yield call.result()
    finally:
        pool.shutdown(cancel_futures=True)
