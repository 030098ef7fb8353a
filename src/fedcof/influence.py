"""How much a head owes to each client: what it would be without it.

The head is solved again without a client, from what the method pools without it. A federation of
thousands has too many clients for that, so those come first whose share is largest: of the samples
of the classes, and of the scatter about the class means. What one client claims and how far off it
is are both in it.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import SummaryError
from fedcof.heads import Head
from fedcof.methods import Method
from fedcof.numerics import GroupSums, squared_distances
from fedcof.summaries import Summary, ordered

MOST = 10
"""Clients of which it is computed, if nothing else is said: each takes as long as solving."""


_COMPARED = 2000
"""Means whose labels are compared: of so many, a share is known to 1.1 %."""

_ROWS = 2**17
"""Means that are pooled again in all: of federations that have more, fewer clients are left out."""

_SCORES = 2**20
"""Scores, or weights of two heads, that are held at once: of ten thousand classes they are many."""

_LEAST = 2
"""Of so many clients each has half of the head."""


@dataclass(frozen=True)
class Influence:
    """What changes where a client is left out.

    Parameters
    ----------
    client_ids : tuple of str
        The clients behind one summary.
    shift : float
        How far the weights move, or the slopes of a head that is not linear: the root of the mean,
        over the classes, of the squared distance between the two directions of a class. From 0 to
        2; a class that only this client holds counts as 1.
    changed : float
        The share of the other clients' samples whose class mean gets another label.
    """

    client_ids: tuple[str, ...]
    shift: float
    changed: float

    def __str__(self) -> str:
        """Return the client, and the two numbers in words."""
        names = ", ".join(map(repr, self.client_ids[:3]))
        return (
            f"client {names}: without it the weights move by {self.shift:.2g}, and "
            f"{self.changed:.1%} of the others' samples, by their class means, get another label"
        )


def influences(
    method: Method[Any], summaries: Iterable[Summary], *, most: int = MOST, pooled: Any = None
) -> list[Influence]:
    """Return the influence of the clients on the head, the largest first.

    Parameters
    ----------
    method : Method
    summaries : iterable of summaries
        What the clients sent; one that holds several clients is left out as a whole.
    most : int
        Of how many, those with the largest share of samples and scatter. Of federations with more
        than 13,000 means it is fewer, and one at least.
    pooled : optional
        What the method's `pool` gives of them, where the caller has it.

    Raises
    ------
    SummaryError
        As `Method.solve`.
    """
    parts = ordered(summaries, method.summary_type)
    most = min(most, max(1, _ROWS // sum(len(part.classes) for part in parts)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # told where the head is made
        pooled = method.pool(parts) if pooled is None else pooled
        method = method.tuned(pooled)  # once: a choice may take longer than solving
        whole = method.fit(pooled)
        labelled = _Labelled.of(parts, whole)
        places = np.argsort(-_shares(parts), kind="stable")[:most].tolist()
        without = method.pools_without(parts, pooled, places)
        found = [
            _influence(parts[place].client_ids, place, whole, _fitted(method, others), labelled)
            for place, others in zip(places, without, strict=True)
        ]
    return sorted(found, key=lambda one: (-one.shift, one.client_ids))


def too_influential(
    method: Method[Any], summaries: Iterable[Summary], most: float, accepted: Collection[str] = ()
) -> list[Influence]:
    """Return the clients to leave out so that none moves the weights by more than `most`.

    The one that moves them most goes first, and the others are weighed again without it, for as
    long as three are left.

    Parameters
    ----------
    method, summaries
        As `influences` takes them.
    most : float
        From 0 to 2.
    accepted : collection of str, default ()
        Clients that stay whatever they move.
    """
    parts, found = ordered(summaries, method.summary_type), list[Influence]()
    while len(parts) > _LEAST:
        larger = [
            one
            for one in influences(method, parts)
            if one.shift > most and not set(accepted) & set(one.client_ids)
        ]
        if not larger:
            break
        found.append(larger[0])
        parts = [part for part in parts if part.client_ids != larger[0].client_ids]
    return found


def _fitted(method: Method[Any], pooled: Any | None) -> Head | None:
    """Return the head of what was pooled; None if there is none."""
    try:
        return None if pooled is None else method.fit(pooled)
    except SummaryError:
        return None


def _influence(
    names: tuple[str, ...],
    left_out: int,
    whole: Head,
    without: Head | None,
    labelled: _Labelled | None,
) -> Influence:
    if without is None:
        return Influence(names, 1.0, 1.0)
    changed = labelled.changed(left_out, without) if labelled else 0.0
    return Influence(names, _shift(whole, without), changed)


def _shift(whole: Head, without: Head) -> float:
    _, here, there = np.intersect1d(whole.classes, without.classes, return_indices=True)
    squares = np.ones(len(whole.classes))
    for some in _parts(len(here), whole.slopes.shape[1]):
        moved = _directions(whole.slopes[here[some]]) - _directions(without.slopes[there[some]])
        squares[here[some]] = np.square(moved).sum(axis=1)
    return float(np.sqrt(squares.mean()))


def _labels(head: Head, means: NDArray[Any]) -> NDArray[Any]:
    parts = _parts(len(means), len(head.classes))
    return np.concatenate([head.predict(means[some]) for some in parts])


def _parts(rows: int, width: int) -> list[slice]:
    step = max(1, _SCORES // width)
    return [slice(start, start + step) for start in range(0, rows, step)]


def _directions(weight: NDArray[Any]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(weight, axis=1, keepdims=True)
    return np.asarray(weight / np.where(lengths > 0, lengths, 1))


@dataclass(frozen=True, eq=False)
class _Labelled:
    """Class means with the labels that the head of all gives them.

    Of many means some are taken, evenly spread over the clients.
    """

    means: NDArray[Any]
    counts: NDArray[np.int64]
    sites: NDArray[np.int64]
    labels: NDArray[Any]

    @classmethod
    def of(cls, parts: Sequence[Summary], whole: Head) -> _Labelled | None:
        """Label means of the summaries; None where no summary shows any."""
        shown = [(k, part) for k, part in enumerate(parts) if part.row_means is not None]
        if not shown:
            return None
        starts = np.cumsum([0, *(len(part.counts) for _, part in shown)])
        total = int(starts[-1])
        some = np.unique(np.linspace(0, total - 1, min(total, _COMPARED)).astype(np.int64))
        places = np.split(some, np.searchsorted(some, starts[1:-1]))
        taken = [
            (part.row_means[at - start], part.counts[at - start], np.full(len(at), k))  # type: ignore[index]
            for (k, part), start, at in zip(shown, starts, places, strict=False)
            if len(at)
        ]
        means, counts, sites = (np.concatenate(arrays) for arrays in zip(*taken, strict=True))
        return cls(means, counts, sites, _labels(whole, means))

    def changed(self, left_out: int, without: Head) -> float:
        """Return the share of the samples of the others that get another label from a head."""
        others = self.sites != left_out
        if not others.any():
            return 0.0
        differ = self.labels[others] != _labels(without, self.means[others])
        counts = self.counts[others]
        return float(counts[differ].sum() / counts.sum())


def _shares(parts: Sequence[Summary]) -> NDArray[np.float64]:
    """Return each summary's shares: of a class's samples, of all samples, of the means' scatter."""
    sites = np.repeat(np.arange(len(parts)), [len(part.classes) for part in parts])
    counts = np.concatenate([part.counts for part in parts]).astype(np.float64)
    classes, index = np.unique(np.concatenate([p.classes for p in parts]), return_inverse=True)
    share = counts / np.bincount(index, counts)[index] / len(classes) + counts / counts.sum()
    means = [part.row_means for part in parts if part.row_means is not None]
    if len(means) == len(parts):
        centres = GroupSums.of(means, index, len(classes), counts).means
        scatter = counts * squared_distances(means, index, centres)
        share = share + scatter / max(float(scatter.sum()), np.finfo(np.float64).tiny)
    return np.asarray(np.bincount(sites, share, len(parts)), dtype=np.float64)
