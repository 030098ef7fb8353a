"""Odd clients among more than can be compared with each other.

`fedcof.screening` compares every site with the rest, all in memory. Of a data set that is streamed,
a sample is compared so: clients at even distances in row groups that a seed chooses. Every other
client is held against the sample in one respect, the one that spoils a head most: it is set aside
if its features are more than 4 times as large as those of any client of the sample that is taken.
A client outside of the sample whose labels are permuted, or who differs otherwise, is not seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from fedcof.errors import SummaryError
from fedcof.scale.dataset import DataSet, SummaryFile, clients_of
from fedcof.scale.solving import Aside, Fragment, Read
from fedcof.screening import LIMITS, OddSite, screen
from fedcof.summaries import Summary

SAMPLE = 1000
"""Clients that are compared with each other, at most."""

_PIECES = 40
"""Row groups and files that they are of, at most; of a million files one each."""

_TIMES = LIMITS["scale"][1]


@dataclass(frozen=True, eq=False)
class Screening:
    """What a sample of the clients says.

    Parameters
    ----------
    clients : int
        How many were compared.
    refused : list of Aside
        Those of them that are set aside, each once.
    odd : list of OddSite
        What is odd about those that are taken.
    largest : float
        The root mean square of the features of the largest that is taken; 0 where the statistic
        shows no means.
    """

    clients: int
    refused: list[Aside]
    odd: list[OddSite]
    largest: float


def screen_sample(data: DataSet, accepted: Collection[str] = (), *, seed: int = 0) -> Screening:
    """Compare a sample of the clients with each other.

    Parameters
    ----------
    data : DataSet
    accepted : collection of str, default ()
        Clients that are taken however odd they are.
    seed : int, default 0
        Chooses the row groups.

    Raises
    ------
    SummaryError
        If no majority of the sample agrees.
    """
    parts, places = _sample(data, seed)
    refused: dict[int, str] = {}
    kept: list[OddSite] = []
    unsure = False
    for place, odd in screen(parts):
        if odd.refused and not set(accepted) & set(odd.client_ids):
            refused[place] = f"{refused[place]}; {odd.reason}" if place in refused else str(odd)
            unsure |= odd.unsure
        else:
            kept.append(odd)
    if unsure:
        reasons = "; ".join(refused.values())
        raise SummaryError("odd", f"no head is made: {reasons}. Give --accept CLIENT to take one")
    asides = [
        Aside(places[k], f"{reason}; --accept takes it as it is", parts[k].client_ids[0])
        for k, reason in refused.items()
    ]
    taken = [part for k, part in enumerate(parts) if k not in refused]
    largest = max((float(size) for part in taken for size in _sizes(part)), default=0.0)
    return Screening(len(parts), asides, kept, largest)


def _sample(data: DataSet, seed: int) -> tuple[list[Summary], list[str]]:
    pieces = [piece for file in data.files for piece in file.pieces]
    most = SAMPLE if len(pieces) > SAMPLE else _PIECES
    if len(pieces) > most:
        chosen = np.random.default_rng(seed).choice(len(pieces), size=most, replace=False)
        pieces = [pieces[k] for k in sorted(chosen.tolist())]
    each = max(1, SAMPLE // len(pieces))
    parts: list[Summary] = []
    places: list[str] = []
    for piece in pieces:
        names = clients_of(piece)
        others = frozenset(names) - {names[k] for k in _evenly(len(names), each)}
        if isinstance(piece, SummaryFile):  # whose clients go together
            others = frozenset()
        try:
            apart = [
                own
                for read in piece.read(counts_alone=False, left_out=others)
                for part in read.parts
                for own in part.apart()
            ]
        except SummaryError:  # a sum of several clients, which cannot be told apart
            continue
        parts += apart
        places += [piece.place] * len(apart)
    return parts, places


def _evenly(number: int, most: int) -> list[int]:
    if number <= most:
        return list(range(number))
    places: list[int] = np.linspace(0, number - 1, most).astype(np.int64).tolist()
    return places


def _sizes(part: Summary) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the root mean square of the features of every client, as its means show it."""
    means = part.row_means
    if means is None:
        return np.zeros(0)
    squares = np.einsum("ij,ij->i", means, means, dtype=np.float64) / means.shape[1]
    starts = np.cumsum(part.rows_per_client) - part.rows_per_client
    if starts[-1] >= len(squares):  # merged
        return np.zeros(0)
    weighted = np.add.reduceat(squares * part.counts, starts)
    samples = np.add.reduceat(part.counts, starts)
    return np.asarray(np.sqrt(weighted / samples))


@dataclass(frozen=True)
class Screened:
    """A fragment without the clients whose features are far larger than those of a sample.

    Parameters
    ----------
    fragment : Fragment
    largest : float
        As `Screening` has it.
    accepted : frozenset of str
        Clients that are taken as they are.
    """

    fragment: Fragment
    largest: float
    accepted: frozenset[str]

    @property
    def size(self) -> int:
        """That of the fragment."""
        return self.fragment.size

    def places(self, client_id: str) -> list[str]:
        """Return where a client stands in it."""
        return self.fragment.places(client_id)

    def read(self, *, counts_alone: bool, left_out: frozenset[str]) -> Iterator[Read]:
        """Read it, and set aside the clients that are too large."""
        for read in self.fragment.read(counts_alone=counts_alone, left_out=left_out):
            yield read if counts_alone or not self.largest else self._without_large(read)

    def _without_large(self, read: Read) -> Read:
        large: dict[str, float] = {}
        for part in read.parts:
            sizes = _sizes(part)
            for k in np.flatnonzero(sizes > _TIMES * self.largest).tolist():
                if part.client_ids[k] not in self.accepted:
                    large[part.client_ids[k]] = float(sizes[k])
        if not large:
            return read
        aside = [
            Aside(
                self.fragment.places(name)[0],
                f"client {name!r}: its features are {size / self.largest:.3g} times the size of "
                "the largest of a sample of the others; is the unit, the normalisation or the "
                "backbone another one?; --accept takes it as it is",
                name,
            )
            for name, size in large.items()
        ]
        rest = [
            own
            for part in read.parts
            for own in ([part] if large.keys().isdisjoint(part.client_ids) else part.apart())
            if large.keys().isdisjoint(own.client_ids)
        ]
        return Read(rest, [*read.set_aside, *aside])


def screened(
    fragments: Iterable[Fragment], screening: Screening, accepted: Collection[str] = ()
) -> list[Fragment]:
    """Return fragments that set aside whose features are too large."""
    taken = frozenset(accepted)
    return [Screened(fragment, screening.largest, taken) for fragment in fragments]
