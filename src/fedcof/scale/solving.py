"""A head from a stream of summaries: passes over fragments, their results added in a fixed tree.

Summaries come in *fragments*, each small enough for memory: some row groups of a Parquet file, some
files, some rows of a database. Every pass of the method (`fedcof.methods.passes`) makes a partial
result of each fragment; who computes them, and how many at a time, is the *engine*. The results are
added pairwise in a tree that depends on the order of the fragments alone, so the head is the same
to the last bit whatever the engine and the number of its workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar

from threadpoolctl import threadpool_limits

from fedcof.errors import SummaryError
from fedcof.heads import Head, Provenance
from fedcof.methods import Method
from fedcof.methods.base import transform_of
from fedcof.methods.passes import Pass
from fedcof.summaries import Summary
from fedcof.summaries.base import common_origin

T = TypeVar("T")

_SHOWN = 3
"""Of what is set aside, so many reasons are told where nothing is left."""

BATCH_BYTES = 64 << 20
"""Bytes of numbers in a fragment, as decoded: many rows, so that products are fast and partial
results few."""


@dataclass(frozen=True)
class Aside:
    """A client, or a file, that is not taken.

    Parameters
    ----------
    place : str
        Where it stands: the file, and the row group.
    reason : str
        Why, with the client.
    client_id : str, default ""
        The client; empty where nothing of the place can be taken.
    """

    place: str
    reason: str
    client_id: str = ""

    def __str__(self) -> str:
        """Return the place and the reason."""
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Read:
    """What was read of a fragment, or of a part of it.

    Parameters
    ----------
    parts : sequence of Summary
        The summaries; where a pass is content with them, `fedcof.methods.passes.Rows`.
    set_aside : sequence of Aside
        What is not among them because something is wrong with it.
    """

    parts: Sequence[Any]
    set_aside: Sequence[Aside] = ()


class Fragment(Protocol):
    """Some of the summaries, which are read when they are needed, as often as they are."""

    @property
    def size(self) -> int:
        """How much of the work it is, in bytes."""

    def read(self, *, counts_alone: bool, left_out: frozenset[str]) -> Iterator[Read]:
        """Yield its summaries without those of the clients that are left out.

        All at once, or in parts, each small enough for memory and the same whenever it is read.

        Parameters
        ----------
        counts_alone : bool
            Whether classes and counts are enough, without the statistic.
        left_out : frozenset of str
        """

    def places(self, client_id: str) -> list[str]:
        """Return where a client stands in it, once for every time."""


Task = Callable[[Fragment], "Result"]

Engine = Callable[[Task, Iterable[Fragment]], Iterator["Result"]]
"""Computes a task of every fragment and yields the results in the order of the fragments. Task,
fragments and results can be pickled."""


def in_process(task: Task, fragments: Iterable[Fragment]) -> Iterator[Result]:
    """Compute one after the other, here: the engine that is always there."""
    return map(task, fragments)


@dataclass(frozen=True)
class Tally:
    """What a head's provenance says of the clients, and what of all summaries must be alike.

    Parameters
    ----------
    clients, samples, formula_bytes : int
    settings : mapping of str to int
        The largest of each setting that the summaries show.
    traits : mapping of str to str
        The kind, the lengths and the type of the labels; empty where no statistic was read.
    origins : mapping of tuple to str
        What made the features, as pairs, with a client that has such.
    """

    clients: int
    samples: int
    formula_bytes: int = 0
    settings: Mapping[str, int] = field(default_factory=dict)
    traits: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[tuple[tuple[str, str], ...], str] = field(default_factory=dict)

    @classmethod
    def of(cls, method: Method[Any], parts: Sequence[Any]) -> Tally:
        """Count some summaries, or some `Rows`, which show less."""
        clients = sum(len(part.client_ids) for part in parts)
        samples = sum(int(part.counts.sum()) for part in parts)
        summaries = [part for part in parts if isinstance(part, Summary)]
        if not summaries:
            return cls(clients, samples)
        traits = _traits(summaries[0])
        origins: dict[tuple[tuple[str, str], ...], str] = {}
        for part in summaries:
            _check_alike(traits, _traits(part), part.client_ids[0])
            origins.setdefault(tuple(part.made_by.items()), part.client_ids[0])
        return cls(
            clients,
            samples,
            sum(part.formula_bytes for part in summaries),
            method.sent_settings(summaries),
            traits,
            origins,
        )

    def __add__(self, other: Tally) -> Tally:
        if self.traits and other.traits:
            _check_alike(self.traits, other.traits, next(iter(other.origins.values())))
        names = sorted(self.settings.keys() | other.settings.keys())
        return Tally(
            self.clients + other.clients,
            self.samples + other.samples,
            self.formula_bytes + other.formula_bytes,
            {n: max(t.settings[n] for t in (self, other) if n in t.settings) for n in names},
            self.traits or other.traits,
            {**other.origins, **self.origins},
        )

    def origin(self) -> dict[str, str]:
        """Return what made all features; see `fedcof.summaries.base.common_origin`."""
        return common_origin(_Maker(dict(pairs), (name,)) for pairs, name in self.origins.items())


@dataclass(frozen=True)
class _Maker:
    made_by: dict[str, str]
    client_ids: tuple[str, ...]


def _traits(part: Summary) -> dict[str, str]:
    lengths = part.axis_lengths | {"dim": part.dim}
    labels = "names" if part.classes.dtype.kind == "U" else "numbers"
    axes = {f"axis {axis!r}": str(length) for axis, length in sorted(lengths.items())}
    return {"kind": part.kind, "labels": labels, **axes}


def _check_alike(usual: Mapping[str, str], other: Mapping[str, str], client_id: str) -> None:
    for name in sorted(usual.keys() | other.keys()):
        if usual.get(name) != other.get(name):
            raise SummaryError(
                "shape",
                f"{name} {other.get(name)}, where others have {usual.get(name)}; all clients must "
                "have the same method, backbone, settings and class list",
                client_id=client_id,
            )


@dataclass(frozen=True, eq=False)
class Result:
    """What a task finds of one fragment.

    Parameters
    ----------
    value : object
        The partial result of the pass; None where no summary is left.
    tally : Tally or None
    client_ids : tuple of str
        The clients that were read, in the order in which they stand there.
    set_aside : sequence of Aside
    size : int
        That of the fragment.
    """

    value: Any
    tally: Tally | None
    client_ids: tuple[str, ...]
    set_aside: Sequence[Aside]
    size: int


def work(
    method: Method[Any], step: Pass[Any], left_out: frozenset[str], fragment: Fragment
) -> Result:
    """Return the partial result of one fragment: the task that an engine computes."""
    set_aside, names = list[Aside](), list[str]()

    def results() -> Iterator[Result]:
        for read in fragment.read(counts_alone=step.counts_alone, left_out=left_out):
            set_aside.extend(read.set_aside)
            if read.parts:
                names.extend(chain.from_iterable(part.client_ids for part in read.parts))
                yield Result(step.partial(read.parts), Tally.of(method, read.parts), (), (), 0)

    with one_thread():
        total = added(results(), partial(_both, step))
    found = (tuple(names), tuple(set_aside), fragment.size)
    return Result(None, None, *found) if total is None else Result(total.value, total.tally, *found)


def one_thread() -> AbstractContextManager[Any]:
    """Let BLAS compute with one thread, so that how many there are does not show in the last bit.

    An engine has many workers, on machines that may differ.
    """
    limits: AbstractContextManager[Any] = threadpool_limits(limits=1, user_api="blas")
    return limits


def added(results: Iterable[T], add: Callable[[T, T], T]) -> T | None:
    """Return the sum of results, added pairwise in a tree that depends on their order alone.

    No more of them are held than the tree is high. None if there is none.

    Examples
    --------
    >>> added("abcde", lambda a, b: f"({a}{b})")
    '(((ab)(cd))e)'
    """
    levels: list[tuple[int, T]] = []
    for result in results:
        levels.append((1, result))
        while len(levels) > 1 and levels[-1][0] == levels[-2][0]:
            size, second = levels.pop()
            _, first = levels.pop()
            levels.append((2 * size, add(first, second)))
    if not levels:
        return None
    _, total = levels.pop()
    while levels:
        total = add(levels.pop()[1], total)
    return total


@dataclass(frozen=True, eq=False)
class Solved:
    """A head that was solved from a stream, and what it was not made of.

    Parameters
    ----------
    head : Head
    set_aside : list of Aside
    """

    head: Head
    set_aside: list[Aside] = field(default_factory=list)


def solve(
    method: Method[Any],
    fragments: Iterable[Fragment],
    *,
    left_out: Iterable[str] = (),
    accepted: Collection[str] = (),
    engine: Engine = in_process,
    advance: Callable[[int], object] | None = None,
) -> Solved:
    """Solve a head from more summaries than fit into memory.

    Equal to ``method.solve`` of all of them to 1e-10, and the same bit for bit for the same
    fragments, whatever the engine.

    Parameters
    ----------
    method : Method
    fragments : iterable of Fragment
        The same ones in the same order each time that it is iterated: there may be two passes, and
        more where a client is found to be set aside.
    left_out : iterable of str, default ()
        Clients that do not count.
    accepted : collection of str, default ()
        Clients that must be there.
    engine : Engine, default in_process
    advance : callable, optional
        Called with the size of every fragment that is done.

    Raises
    ------
    StreamingError
        If the method needs all summaries in memory.
    SummaryError
        If no summary is left, two do not fit together, a client appears twice, or one that is
        accepted is not there.
    """
    run = _Run(method, fragments, frozenset(accepted), engine, advance)
    gone, set_aside = frozenset(left_out), dict[Aside, None]()
    while True:
        found = run.through(method.streamed(), gone)
        set_aside.update(dict.fromkeys(found.set_aside))
        if not found.late:
            break
        gone |= found.late  # the first pass counted them
    tally, head = found.tally, method.fit(found.pooled)
    made = head.provenance or Provenance(method.name)
    origin = tally.origin()
    provenance = replace(
        made,
        hyperparameters={**(made.hyperparameters or asdict(method)), **tally.settings},
        clients=tally.clients,
        samples=tally.samples,
        formula_bytes=tally.formula_bytes,
        origin=origin,
        privacy=method.noise_of(origin),
    )
    whole = replace(head, provenance=provenance, transform=transform_of(origin))
    return Solved(whole, list(set_aside))


@dataclass(frozen=True, eq=False)
class _Found:
    """What all passes found.

    Parameters
    ----------
    pooled : object
        What `Method.fit` takes.
    tally : Tally
    set_aside : list of Aside
    late : set of str
        The clients that were set aside after the first pass, which had counted them.
    """

    pooled: object
    tally: Tally
    set_aside: list[Aside]
    late: set[str]


@dataclass(frozen=True, eq=False)
class _Run:
    """One way through fragments."""

    method: Method[Any]
    fragments: Iterable[Fragment]
    accepted: frozenset[str]
    engine: Engine
    advance: Callable[[int], object] | None

    def through(self, step: Pass[Any], left_out: frozenset[str]) -> _Found:
        """Go through all passes."""
        set_aside, early = list[Aside](), set[str]()
        names: list[tuple[str, ...]] | None = []
        while True:
            total = self._total(step, left_out, set_aside, names)
            if names is not None:
                early = _clients_of(set_aside)
                _check_there(self.accepted - early - left_out, names)
                _check_once(names, self.fragments)
                names = None
            finished = step.finish(total.value)
            if not isinstance(finished, Pass):
                late = _clients_of(set_aside) - early - left_out
                assert total.tally is not None
                return _Found(finished, total.tally, set_aside, late)
            step = finished

    def _total(
        self,
        step: Pass[Any],
        left_out: frozenset[str],
        set_aside: list[Aside],
        names: list[tuple[str, ...]] | None,
    ) -> Result:
        """Return the result of one pass; note who was there, and who was set aside."""

        def kept(results: Iterator[Result]) -> Iterator[Result]:
            for result in results:
                set_aside.extend(result.set_aside)
                if names is not None:
                    names.append(result.client_ids)
                if self.advance is not None:
                    self.advance(result.size)
                if result.tally is not None:
                    yield replace(result, client_ids=(), set_aside=())

        task = partial(work, self.method, step, left_out)
        results = self.engine(task, self.fragments)
        with one_thread():
            try:
                total = added(kept(results), partial(_both, step))
            finally:  # a thread that went on would leave BLAS the one thread that it has found
                if isinstance(results, Generator):
                    results.close()
        if total is None:
            raise SummaryError("empty", f"no head is made: no client is left{_why(set_aside)}")
        return total


def _why(set_aside: Sequence[Aside]) -> str:
    shown = "; ".join(map(str, set_aside[:_SHOWN]))
    more = len(set_aside) - _SHOWN
    return (f". {shown}" if shown else "") + (f"; and {more:,} more" if more > 0 else "")


def _clients_of(set_aside: Iterable[Aside]) -> set[str]:
    return {one.client_id for one in set_aside if one.client_id}


def _both(step: Pass[Any], first: Result, second: Result) -> Result:
    assert first.tally is not None
    assert second.tally is not None
    value = step.add(first.value, second.value)
    return replace(first, value=value, tally=first.tally + second.tally)


def _check_there(accepted: Collection[str], names: Sequence[tuple[str, ...]]) -> None:
    if missing := sorted(set(accepted).difference(*names)):
        raise SummaryError(
            "unknown-client", "is accepted, but there is no such client", client_id=missing[0]
        )


def _check_once(names: Sequence[tuple[str, ...]], fragments: Iterable[Fragment]) -> None:
    """Check that no client appears twice; it is looked for again only to say where."""
    number = sum(map(len, names))
    distinct = {name for some in names for name in some}
    unnamed = sum(some.count("") for some in names) if "" in distinct else 0
    if len(distinct) - ("" in distinct) == number - unnamed:
        return
    counted = Counter(name for some in names for name in some if name)
    twice, _ = counted.most_common(1)[0]
    places = [place for fragment in fragments for place in fragment.places(twice)]
    raise SummaryError(
        "duplicate-client",
        f"appears {counted[twice]} times, in {' and in '.join(places[:2])}; a client may be "
        "counted once: leave one out, or let the sites have different names",
        client_id=twice,
    )
