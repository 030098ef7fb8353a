"""Summaries that somebody yields, as fragments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fedcof.errors import SummaryError
from fedcof.scale.solving import BATCH_BYTES, Fragment, Read
from fedcof.summaries import Summary


@dataclass(frozen=True, eq=False)
class Batch:
    """Summaries that are in memory, as a `Fragment`.

    Parameters
    ----------
    parts : list of Summary
    first : int, default 0
        The place of the first among all that were yielded.
    """

    parts: list[Summary]
    first: int = 0

    @property
    def size(self) -> int:
        """The bytes of their statistics."""
        return sum(numbers_of(part) for part in self.parts) * 4

    def read(self, *, counts_alone: bool, left_out: frozenset[str]) -> Iterator[Read]:
        """Yield those that are not left out; a summary of several clients goes as a whole."""
        yield Read([part for part in self.parts if left_out.isdisjoint(part.client_ids)])

    def places(self, client_id: str) -> list[str]:
        """Return where a client stands among those that were given."""
        return [
            f"summary {self.first + place} of those given"
            for place, part in enumerate(self.parts)
            for name in part.client_ids
            if name == client_id
        ]


@dataclass(frozen=True, eq=False)
class Batches(Iterable[Fragment]):
    """Summaries, one after the other, in batches of a bounded size.

    Parameters
    ----------
    summaries : iterable of Summary
        One that can be iterated again, such as a list or an object that reads them anew.

    Raises
    ------
    SummaryError
        If a second pass is needed, and they can be had only once.
    """

    summaries: Iterable[Summary]

    def __iter__(self) -> Iterator[Fragment]:
        """Yield batches; each is let go of when the next one is asked for."""
        batch: list[Summary] = []
        size = first = place = 0
        for place, part in enumerate(self.summaries, 1):
            batch.append(part)
            size += 4 * numbers_of(part)
            if size >= BATCH_BYTES:
                yield Batch(batch, first)
                batch, size, first = [], 0, place
        if batch:
            yield Batch(batch, first)
        if place == 0 and iter(self.summaries) is self.summaries:
            raise SummaryError(
                "empty",
                "there is no summary: an iterator is used up after one pass, and the method may "
                "need two; give a list, or an object that can be iterated again",
            )


def numbers_of(part: Summary) -> int:
    """Return how many numbers the statistic of a summary has."""
    return sum(int(getattr(part, name).size) for name in part.axes)
