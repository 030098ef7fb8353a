"""What is odd about a site, from the summaries alone.

A head is made of everything that arrives, so one site with other features spoils it for all. Its
numbers are well-formed, and only the other sites show that they are wrong: every site is compared
with the rest by its class means, by the scatter about them where it sends one, and by its samples.
Each question is answered by a factor of at least 1:

==========  =====================================================  =========  ==========
check       the factor                                             odd from   refused from
==========  =====================================================  =========  ==========
"scale"     how much larger or smaller its features are            2.4        4
"classes"   how little its classes differ as the others' do        5          7.5
"shift"     how far all its classes are moved alike                3          10
"place"     how far it lies from the others, as they do from       2.5        8
            each other
"samples"   how many times as many samples it claims as the usual  100        10000
            site, of at least 100
"spread"    how much farther its samples lie from their means      3.5        6
==========  =====================================================  =========  ==========

The limits lie between what honest sites reached and what faulty ones did (see below).

Notes
-----
Site k sends the means ``mu_kc`` of ``n_kc`` samples. The rest of the sites give the reference
``m_c``, their mean of the class. A mean of n samples has the squared error ``s / n``, where s is
the trace of the covariance within a class, so a site with few samples is far from the others by
chance. Every comparison allows for that: what is ``a + s h`` with an unknown ``a`` and ``s`` of at
least 0, such as a squared distance at the sampling error ``h``, lies between ``min(1, h_k / h_j)``
and ``max(1, h_k / h_j)`` times what it is at another honest site j. A site's factor is the median,
over the other sites, of what goes beyond that range.

- scale: the mean of ``|mu_kc|^2``, weighted by the samples.
- classes: the slope of the site's class means on the reference, both about their own mean, ``sum
  <A, B> / sum |B|^2``. It is 1 at honest sites of one kind, for noise and domain do not turn the
  classes' differences: the least was 0.6 at sites of 80 images and 0.36 over the four domains of
  PACS. It is near 0 for another backbone and for permuted labels, and -1 for a flipped sign.
- shift: the distance between the two means, over the distance that is left when it is taken off.
- place: the distance to the reference, in units of the others' distance to theirs.

- spread: the root of the variance within the classes, over that of the usual site; less what it
  may be larger by chance. Methods that send means alone show none.

A row weighs less in the reference the farther it is from the geometric median of its class
(`fedcof.robust`), so that a minority of sites that lie alike hides nobody.

Measured with SqueezeNet 1.1 on about 450 honest federations: CIFAR-100 and PACS dealt by Dirichlet
with alpha 0.01 to 10 to 3, 6, 30 and 100 sites, and by the sizes of iNaturalist's users; PACS by
domain, two to four of them, and five sites of one domain beside one of another; standardised,
normalised and rooted features; tables of 4 to 64 columns. No site was refused; one of PACS, of
another domain than five others, was named (classes 5.0). The largest factors were scale 2.3 (a
table whose columns have different units; 1.4 of images), classes 5.0, shift 2.7, place 1.9; and
spread 3.0 (the same table; 1.3 of images).
One faulty site of six (Dirichlet, alpha 0.1); the median of three draws, which differ in what the
site holds:

=====================  ====================  ====================
fault                  CIFAR-100             PACS
=====================  ====================  ====================
features times 3       scale 3.0             scale 3.0
features times 5       scale 5.0             scale 5.0
features times 10      scale 10              scale 10
features a tenth       scale 9.5             scale 8.7
all features 0         scale 98              scale 59
sign flipped           classes 964           classes 962
labels permuted        classes 938           classes 979
channels permuted      classes 8.3           not seen
plus 1                 not seen              not seen
two labels swapped     not seen              not seen
=====================  ====================  ====================

Of those not seen at PACS one draw of three was, each time. Not seen either: permuted labels at one
of the four domains of PACS, which differ as much among themselves, and images with red and blue
exchanged, which move the features less than a domain does.

Sites that are odd are taken out of the reference, the worst first, for as long as most are left.
Where no majority is left, as of two sites, all that differ are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedcof.robust import trusted_counts
from fedcof.summaries import Summary

K = TypeVar("K", bound=Hashable)

Check = Literal["scale", "classes", "shift", "place", "samples", "spread"]

LIMITS: dict[Check, tuple[float, float]] = {
    "scale": (2.4, 4.0),
    "classes": (5.0, 7.5),
    "shift": (3.0, 10.0),
    "place": (2.5, 8.0),
    "samples": (100.0, 10_000.0),
    "spread": (3.5, 6.0),
}
"""From which factor a site is odd, and from which it is refused."""

_BEYOND_COMPARISON = 1e6
"""Features so much larger than the others' are not compared further: squares would overflow."""

_NUMBERS = 2**20
"""Numbers that are compared; of longer features some are, evenly spread, so that thousands of sites
cost a fraction of what solving does. They are at least so many, and fewer than twice as many."""

_LEAST = 16
"""Numbers of a feature that are compared at least."""

_JUDGES = 49
"""Sites that each site is compared with at most."""

_SITES_AT_ONCE = 1 << 13
"""Sites that are compared in one go; of a hundred thousand, the arrays would take 500 MB."""

_ROWS_AT_ONCE = 1 << 14
"""Rows of which a further array is made in one go, for the same reason."""

_GOLDEN = (np.sqrt(5) - 1) / 2

_SMALL = 20
"""Up to so many sites, one odd site moves the others' reference enough to hide in it."""

_SEPARATION = {"shared": 0.75, "alone": 2.0, "shift": 0.2, "shift of two": 1.0}
"""Distances in units of the classes' distance from their mean, which are no unit of oddity: that of
the site from the reference, that of a class which no other site holds from the mean of all classes,
and that between the means."""

_SIZE = 0.6
"""The same in units of the reference's size: domains of images differ by up to 0.95."""

_SHARE = 0.2
"""The share of the variance within a class that is taken to lie along the classes' differences, at
least."""

_HEAVIEST = 2.0
"""How many times as much as the usual site a site weighs in the reference at most."""

_USUAL_SAMPLES = 100
"""Of federations of clients with fewer samples, claims are compared with so many."""

_BLUR = 0.25
"""The share of noise in the others' differences of classes up to which they say something."""

_FEW_RESIDUALS = 8
"""From fewer rows, directions of the variance are not told."""

_FIT = 0.5
"""The share of the reference that classes must fit to be taken for those of other names."""

_FLOAT = NDArray[np.float64]


@dataclass(frozen=True)
class OddSite:
    """A site that is not like the others in one respect.

    Parameters
    ----------
    client_ids : tuple of str
        The site: the clients behind one summary.
    check : {"scale", "classes", "shift", "place", "samples", "spread"}
        In which respect.
    factor : float
        How odd it is; see the table of this module.
    reason : str
        For people.
    unsure : bool
        Whether no majority of the sites agrees, so that which of them are wrong cannot be told.
    """

    client_ids: tuple[str, ...]
    check: Check
    factor: float
    reason: str
    unsure: bool = False

    @property
    def refused(self) -> bool:
        """Whether no head should be made of it unless somebody has looked at it."""
        return self.factor >= LIMITS[self.check][1]

    def __str__(self) -> str:
        """Return the site and the reason."""
        names = ", ".join(map(repr, self.client_ids[:3]))
        more = " and others" if len(self.client_ids) > 3 else ""
        return f"client {names}{more}: {self.reason}{_UNSURE if self.unsure else ''}"


@dataclass(frozen=True, eq=False, slots=True)
class Site:
    """What is known of a summary without its statistic: little, whatever the statistic is.

    Parameters
    ----------
    client_ids : tuple of str
    rows_per_client : ndarray of int64, shape (clients,)
    classes, counts : ndarray, shape (rows,)
    total : int
        The number of samples.
    dim : int
        The length of a feature.
    shape : str
        How long the axes are and of which type the labels, in words.
    made_by : mapping of str to str
        What made the features.
    scale : float
        How large they are.
    within_trace : float
        The trace of the scatter within the rows; NaN where the statistic does not show it.
    numbers : ndarray of float, shape (rows, some)
        The first numbers of the mean of every row, in the order of `compared`; none where the
        statistic shows no means.
    """

    client_ids: tuple[str, ...]
    rows_per_client: NDArray[np.int64]
    classes: NDArray[Any]
    counts: NDArray[np.int64]
    total: int
    dim: int
    shape: str
    made_by: Mapping[str, str]
    scale: float
    within_trace: float
    numbers: NDArray[np.floating[Any]]

    @classmethod
    def of(cls, summary: Summary) -> Site:
        """Return what is known of a summary, without numbers of its means."""
        return cls.of_each([summary], 0)[0]

    @classmethod
    def of_each(cls, summaries: Sequence[Summary], numbers: int) -> list[Site]:
        """Return what is known of each of several summaries.

        Parameters
        ----------
        summaries : sequence of summaries
        numbers : int
            How many numbers of every mean to keep at most.
        """
        sites = zip(
            summaries,
            _side_by_side([summary.classes for summary in summaries]),
            _side_by_side([summary.counts for summary in summaries]),
            _side_by_side([_numbers(summary, numbers) for summary in summaries]),
            strict=True,
        )
        return [cls._of(summary, *arrays) for summary, *arrays in sites]

    @classmethod
    def _of(
        cls,
        summary: Summary,
        classes: NDArray[Any],
        counts: NDArray[np.int64],
        numbers: NDArray[Any],
    ) -> Site:
        lengths, trace = tuple(summary.axis_lengths.items()), summary.within_trace
        return cls(
            summary.client_ids,
            summary.rows_per_client,
            classes,
            counts,
            summary.total,
            summary.dim,
            _shape(summary.dim, classes.dtype.kind == "U", lengths),
            _shared(tuple(summary.made_by.items())),
            summary.scale,
            np.nan if trace is None else trace,
            numbers,
        )


def with_fewer_numbers(sites: Sequence[Site], numbers: int) -> list[Site]:
    """Return the same with at most so many numbers of every mean."""
    fewer = _side_by_side([site.numbers[:, :numbers] for site in sites])
    return [replace(site, numbers=kept) for site, kept in zip(sites, fewer, strict=True)]


def _numbers(summary: Summary, numbers: int) -> NDArray[Any]:
    means = summary.row_means if numbers else None
    if means is None:
        return np.empty((len(summary.classes), 0))
    return means[:, compared(summary.dim)[:numbers]]


def _side_by_side(arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return copies that are parts of one array, if they are alike.

    A hundred thousand small ones would take more memory than what is in them, and leave gaps.
    """
    if len({(array.dtype, array.shape[1:]) for array in arrays}) != 1:
        return [array.copy() for array in arrays]
    whole = np.concatenate(arrays)
    stops = np.cumsum([len(array) for array in arrays]).tolist()
    return [whole[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


def numbers_compared(rows: int) -> int:
    """Return how many numbers of a feature are compared among so many rows: a power of two."""
    return max(_LEAST, 1 << (-(-_NUMBERS // max(1, rows)) - 1).bit_length())


@lru_cache(maxsize=8)
def compared(dim: int) -> NDArray[np.int64]:
    """Return the numbers of a feature in the order in which they are compared.

    However many are taken, the first of them are evenly spread, and in step with no pattern.
    """
    steps = (np.arange(2 * dim) * _GOLDEN % 1 * dim).astype(np.int64)
    return np.unique(steps, return_index=True)[1].argsort()


@lru_cache(maxsize=64)
def _shared(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return MappingProxyType(dict(pairs))


def screen(summaries: Iterable[Summary]) -> list[tuple[int, OddSite]]:
    """Return the sites that are not like the others, each after its place among those given.

    Parameters
    ----------
    summaries : iterable of summaries
        One a site, of one kind and dimension, as `fedcof.summaries.ordered` checks it.

    Returns
    -------
    list of (int, OddSite)
        A site may be odd in several respects. Empty where there is one site alone.

    Examples
    --------
    >>> from fedcof import summarize
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 50)
    >>> found = []
    >>> for name, unit in {"a": 1, "b": 1, "c": 3}.items():
    ...     features = unit * (rng.normal(size=(100, 4)) + 3 * labels[:, None])
    ...     found.append(summarize(features, labels, client_id=name))
    >>> [(place, odd.check, round(odd.factor)) for place, odd in screen(found)]
    [(2, 'scale', 3)]
    """
    parts = list(summaries)
    numbers = numbers_compared(sum(len(part.classes) for part in parts))
    return screen_sites(Site.of_each(parts, numbers))


def screen_sites(sites: Sequence[Site]) -> list[tuple[int, OddSite]]:
    """Return what `screen` does, of what is known of every summary.

    Of every mean there must be as many numbers as `numbers_compared` of all rows says, or all.
    """
    if len(sites) < 2:
        return []
    beyond = _beyond_comparison(sites)
    found = dict(beyond)
    for claims in (_claims(sites), _spreads(sites)):
        for k, claim in claims.items():
            found.setdefault(k, []).append(claim)
    kept = [k for k in range(len(sites)) if k not in beyond]
    if len(kept) > 1:
        rows = _Rows.of([sites[k] for k in kept])
        for k, check, factor, reason in [] if rows is None else _screen(rows):
            found.setdefault(kept[k], []).append((check, factor, reason))
    unsure = len(found) > len(sites) / 2 or len(sites) == 2
    return [
        (k, OddSite(sites[k].client_ids, check, float(factor), reason, unsure))
        for k in sorted(found)
        for check, factor, reason in found[k]
    ]


def misfits(sites: Mapping[K, Site]) -> dict[K, str]:
    """Return those that cannot be put together with most of the others, with the reason.

    Two can if their axes are equally long, their labels are of one type, and their origins do not
    contradict each other. The usual value is that of most, whoever came first.
    """
    fitting = dict(sites)
    found: dict[K, str] = {}
    origins = sorted({name for site in fitting.values() for name in site.made_by})
    traits: list[Callable[[Site], str]] = [
        attrgetter("shape"),
        *(partial(_made_by, name) for name in origins),
    ]
    for describe in traits:
        described = {key: text for key, kept in fitting.items() if (text := describe(kept))}
        for usual, alike in Counter(described.values()).most_common(1):
            for key, text in described.items():
                if text != usual:
                    del fitting[key]
                    found[key] = f"{text}; {alike} of {len(described)} clients have {usual}"
    return found


@lru_cache(maxsize=64)
def _shape(dim: int, named: bool, lengths: tuple[tuple[str, int], ...]) -> str:
    others = {*lengths} - {("dim", dim)}
    axes = "".join(f", {axis} {length}" for axis, length in sorted(others))
    labels = "names" if named else "numbers"
    return f"features of length {dim} and {labels} for labels{axes}"


def _made_by(name: str, site: Site) -> str:
    """Return a fingerprint of the features' origin with its name; empty where there is none."""
    return f"{name} {site.made_by[name]}" if name in site.made_by else ""


_UNSURE = "; no majority of the sites agrees, so which of them are wrong cannot be told"


def _beyond_comparison(parts: Sequence[Site]) -> dict[int, list[tuple[Check, float, str]]]:
    """Return the sites whose numbers are so large that squares of them would hide the others'."""
    scales = np.array([part.scale for part in parts])
    usual = float(np.sort(scales)[(len(scales) - 1) // 2])
    if usual == 0:
        return {}
    larger = scales / usual
    far = larger > _BEYOND_COMPARISON
    if len(parts) == 2 and far.any():
        larger = larger * np.where(far, 1, usual / scales.max())
        far[:] = True
    return {
        int(k): [("scale", max(larger[k], 1 / larger[k]), _scale_reason(float(larger[k])))]
        for k in np.flatnonzero(far)
    }


def _claims(parts: Sequence[Site]) -> dict[int, tuple[Check, float, str]]:
    """Return the sites that claim far more samples than the usual one; of two, none is usual."""
    samples = np.array([part.total / len(part.client_ids) for part in parts])
    usual = float(np.median(samples))
    times = samples / max(usual, _USUAL_SAMPLES)
    if len(parts) <= 2:
        return {}
    return {
        int(k): (
            "samples",
            float(times[k]),
            f"it claims {samples[k]:,.0f} samples a client, where {usual:,.0f} are usual",
        )
        for k in np.flatnonzero(times >= LIMITS["samples"][0])
    }


def _spreads(parts: Sequence[Site]) -> dict[int, tuple[Check, float, str]]:
    """Return the sites whose scatter is that of far larger deviations than the usual one's.

    Of a few samples the scatter may be larger by chance. Where most sites have a sample a class
    there is no usual one, nor of two sites.
    """
    freedom = np.array([part.total - len(part.classes) for part in parts], dtype=np.float64)
    traces = np.array([part.within_trace for part in parts])
    if len(parts) <= 2 or np.isnan(traces).any():
        return {}
    variances = np.maximum(traces, 0) / np.maximum(freedom, 1)
    usual = float(np.median(variances))
    if usual == 0:
        return {}
    chance = 1 + 3 * np.sqrt(2 / np.maximum(freedom, 1))
    times = np.sqrt(variances / usual / chance)
    return {
        int(k): (
            "spread",
            float(times[k]),
            f"its samples lie {times[k]:.3g} times as far from the means of their classes as the "
            "other sites' do",
        )
        for k in np.flatnonzero(times >= LIMITS["spread"][0])
    }


@dataclass(frozen=True, eq=False)
class _Rows:
    """The class means of all sites, in one unit and about a common origin.

    A row counts as ``counts`` samples for its own site, and weighs ``weights`` in the reference of
    the others.
    """

    site: NDArray[np.int64]
    label: NDArray[np.int64]
    labels: list[Any]
    counts: _FLOAT
    weights: _FLOAT
    means: _FLOAT
    origin: _FLOAT

    @classmethod
    def of(cls, parts: Sequence[Site]) -> _Rows | None:
        """Put the numbers of all sites together; None where a site shows none."""
        total = sum(len(part.classes) for part in parts)
        width = min(numbers_compared(total), *(part.numbers.shape[1] for part in parts))
        if width == 0:
            return None
        unit = max(float(np.median([part.scale for part in parts])), np.finfo(np.float64).tiny)
        stacked = np.empty((total, width))
        np.concatenate([part.numbers[:, :width] for part in parts], out=stacked)
        stacked /= unit
        origin = np.median(stacked[np.linspace(0, total - 1, _JUDGES).astype(np.int64)], axis=0)
        labels, label = np.unique(
            np.concatenate([part.classes for part in parts]), return_inverse=True
        )
        site = np.repeat(np.arange(len(parts)), [len(part.classes) for part in parts])
        counts = np.concatenate([part.counts for part in parts]).astype(np.float64)
        totals = np.bincount(site, counts)
        heaviest = np.minimum(1, _HEAVIEST * np.median(totals) / totals)
        means = stacked
        means -= origin
        return cls(
            site=site,
            label=label,
            labels=labels.tolist(),
            counts=counts,
            weights=np.minimum(counts * heaviest[site], trusted_counts(means, counts, label, site)),
            means=means,
            origin=origin,
        )

    @property
    def sites(self) -> int:
        return int(self.site[-1]) + 1

    def by_site(self, values: _FLOAT, weights: _FLOAT | None = None) -> _FLOAT:
        """Return the weighted sums of the rows' values, a site each."""
        return _sums(values, self.site, self.sites, weights)

    def by_label(self, values: _FLOAT, weights: _FLOAT | None = None) -> _FLOAT:
        """Return the weighted sums of the rows' values, a label each."""
        return _sums(values, self.label, len(self.labels), weights)


def _sums(values: _FLOAT, group: NDArray[np.int64], groups: int, weights: _FLOAT | None) -> _FLOAT:
    if weights is None:
        return np.asarray(np.bincount(group, values, groups), dtype=np.float64)
    entries = (weights, (group, np.arange(len(group))))
    return np.asarray(sparse.csr_array(entries, shape=(groups, len(group))) @ values)


@dataclass(frozen=True, eq=False)
class _Comparison:
    """Every site beside the rest of the reference, an entry a site; squares of distances.

    ``error`` is what sampling makes of a distance if s is 1. ``shift`` is the distance of the
    means, ``rest`` what is left without it, and ``noise`` the s that would make that. ``reach`` is
    below which distance nothing is odd. ``slope`` is NaN where a site shares fewer than two
    classes; ``precision`` is the inverse of its variance, and ``blur`` the share of noise in the
    others' differences of classes, both if s is 1. ``along`` is the share of the variance within a
    class that is taken to lie along a direction.
    """

    distance: _FLOAT
    error: _FLOAT
    reach: _FLOAT
    shift: _FLOAT
    rest: _FLOAT
    noise: _FLOAT
    slope: _FLOAT
    precision: _FLOAT
    blur: _FLOAT
    along: float
    separation: float
    reference: _Reference


@dataclass(frozen=True, eq=False)
class _Reference:
    """The mean of the other sites beside every row, ``(base - counts * mean) / rest``.

    It is made of some rows at a time: for all, only sums by site are kept. A row that no other site
    shares its class with has the middle of all classes beside it.
    """

    rows: _Rows
    sums: _FLOAT
    totals: _FLOAT
    counts: _FLOAT
    rest: _FLOAT
    shared: NDArray[np.bool_]
    middle: _FLOAT
    separation: float

    @classmethod
    def of(cls, rows: _Rows, trusted: NDArray[np.bool_]) -> _Reference:
        counts = rows.weights * trusted[rows.site]
        sums, totals = rows.by_label(rows.means, counts), rows.by_label(counts)
        class_means = sums[totals > 0] / totals[totals > 0, None]
        middle = class_means.mean(axis=0)
        separation = float(np.median(np.square(class_means - middle).sum(axis=1)))
        rest = totals[rows.label] - counts
        shared = rest > 0
        counts, rest = np.where(shared, counts, 0), np.where(shared, rest, 1)
        return cls(rows, sums, totals, counts, rest, shared, middle, separation)

    def __call__(self, some: Any) -> _FLOAT:
        """Return the reference of some rows."""
        own = self.rows.means[some] * self.counts[some, None]
        return np.asarray((self._base(some) - own) / self.rest[some, None])

    def _base(self, some: Any) -> _FLOAT:
        found = self.sums[self.rows.label[some]]
        found[~self.shared[some]] = self.middle
        return np.asarray(found)

    def every(self, some: Any) -> _FLOAT:
        """Return how much some rows weigh in their sites."""
        others = np.where(self.shared[some], 1 / self.rest[some], 0)
        return np.asarray(1 / (1 / self.rows.counts[some] + others))

    def weight(self, some: Any) -> _FLOAT:
        """Return the same of those that are shared, and 0 of others."""
        return np.where(self.shared[some], self.every(some), 0)

    def by_site(self) -> tuple[_FLOAT, _FLOAT, _FLOAT]:
        """Return sums by site: of `_numbers`, of the means and of their references, by weight."""
        rows = self.rows
        (sites, dim), squares = (rows.sites, rows.means.shape[1]), np.square(self.sums).sum(axis=1)
        numbers, ours, theirs = np.zeros((8, sites)), np.zeros((sites, dim)), np.zeros((sites, dim))
        for some in _parts_of(len(rows.site)):
            base, weight = self._base(some), self.weight(some)
            first, last = int(rows.site[some][0]), int(rows.site[some][-1]) + 1
            own = rows.site[some] - first
            for k, values in enumerate(self._numbers(some, base, squares)):
                numbers[k, first:last] += np.bincount(own, values, last - first)
            by_rest = weight / self.rest[some]
            ours[first:last] += _sums(rows.means[some], own, last - first, weight)
            theirs[first:last] += _sums(base, own, last - first, by_rest)
            by_rest *= self.counts[some]
            theirs[first:last] -= _sums(rows.means[some], own, last - first, by_rest)
        return numbers, ours, theirs

    def _numbers(self, some: slice, base: _FLOAT, sums_squared: _FLOAT) -> list[_FLOAT]:
        """Return what is summed by site, in the order in which `_compare` takes it."""
        rows, middle, origin = self.rows, self.middle, self.rows.origin
        means, counts, rest = rows.means[some], self.counts[some], self.rest[some]
        shared, every, weight = self.shared[some], self.every(some), self.weight(some)
        squares = np.einsum("ij,ij->i", means, means)
        products = np.einsum("ij,ij->i", means, base)
        base_squares = np.where(shared, sums_squared[rows.label[some]], middle @ middle)
        product = (products - counts * squares) / rest
        reference = np.maximum(
            (base_squares - 2 * counts * products + counts**2 * squares) / rest**2, 0
        )
        apart = np.maximum(squares - 2 * product + reference, 0)
        # The distance from the origin, of which the rows are about `rows.origin`.
        offset = (base @ origin - counts * (means @ origin)) / rest
        size = np.maximum(reference + 2 * offset + origin @ origin, 0)
        reach = np.where(shared, _SEPARATION["shared"], _SEPARATION["alone"]) ** 2 * self.separation
        reach = np.maximum(reach, _SIZE**2 * size)
        shares = [weight, weight / rest, shared.astype(np.float64)]
        distances = [weight * product, weight * reference, weight * apart]
        return [*shares, *distances, every * apart, every * reach]


def _compare(rows: _Rows, trusted: NDArray[np.bool_]) -> _Comparison:
    reference = _Reference.of(rows, trusted)
    separation, numbers = reference.separation, np.bincount(rows.site, minlength=rows.sites)
    sums, ours, theirs = reference.by_site()
    known, by_rest, held, product, square, apart, distance, reach = sums
    total = rows.by_site(reference.every(slice(None)))
    known = np.maximum(known, np.finfo(np.float64).tiny)
    ours /= known[:, None]
    theirs /= known[:, None]
    together = product - known * np.einsum("ij,ij->i", ours, theirs)
    spread = square - known * np.square(theirs).sum(axis=1)
    shift = np.square(ours - theirs).sum(axis=1)
    residual = np.maximum(apart - known * shift, 0)
    several = (held > 1) & (spread > 1e-9 * separation * known)
    along = max(_SHARE, 1 / rows.means.shape[1], _share_along_one(reference))
    freedom = np.where(several, held - 1, 1)
    return _Comparison(
        distance=distance / total,
        error=numbers / total,
        reach=reach / total,
        shift=shift,
        rest=residual / known,
        noise=np.where(several, residual / np.maximum(held - 1, 1), distance / numbers)
        / _median_of_chance(freedom / along),
        slope=np.divide(together, spread, out=np.full(rows.sites, np.nan), where=several),
        precision=np.maximum(spread, 0) / along,
        blur=np.divide(by_rest, spread, where=several, out=np.full(rows.sites, np.inf)),
        along=along,
        separation=separation,
        reference=reference,
    )


def _parts_of(rows: int) -> list[slice]:
    return [slice(start, start + _ROWS_AT_ONCE) for start in range(0, rows, _ROWS_AT_ONCE)]


def _share_along_one(reference: _Reference) -> float:
    """Return the mean squared cosine of what is left of two means without that of their class.

    It is the share of the variance that lies along one direction where one has most of it, as in a
    table whose columns have different units.
    """
    rows, sums, totals = reference.rows, reference.sums, reference.totals
    some = np.unique(np.linspace(0, len(rows.site) - 1, _JUDGES).astype(np.int64))
    some = some[totals[rows.label[some]] > rows.weights[some]]
    left = rows.means[some] - sums[rows.label[some]] / totals[rows.label[some], None]
    lengths = np.linalg.norm(left, axis=1)
    left = left[lengths > 0] / lengths[lengths > 0, None]
    number = len(left)
    if number < _FEW_RESIDUALS:
        return 0.0
    cosines = np.square(left @ left.T)
    return float((cosines.sum() - number) / (number * (number - 1)))


def _median_of_chance(degrees: _FLOAT) -> _FLOAT:
    """Return the median of a chi-squared variable over its mean (Wilson and Hilferty)."""
    return np.asarray((1 - 2 / (9 * degrees)) ** 3)


def _screen(rows: _Rows) -> list[tuple[int, Check, float, str]]:
    """Return the site, the check, the factor and the reason of all that is odd."""
    everybody = np.ones(rows.sites, dtype=np.bool_)
    # The noise is known once the sites are in one scale.
    at_first = _scale_factors(rows, np.inf)
    comparison = _compare(_in_one_scale(rows, at_first, at_first > 0), everybody)
    noise, separation = _noise(comparison, everybody), comparison.separation
    del comparison  # and a copy of all rows with it
    larger = _scale_factors(rows, noise)
    scale_is_odd = np.maximum(larger, 1 / np.maximum(larger, 1e-300)) >= LIMITS["scale"][0]
    odd: list[tuple[int, Check, float, str]] = [
        (k, "scale", max(larger[k], 1 / max(larger[k], 1e-300)), _scale_reason(larger[k]))
        for k in np.flatnonzero(scale_is_odd).tolist()
    ]
    if not separation:
        return odd
    # The other checks see the site in the others' scale: what is too large is not also displaced.
    rows = _in_one_scale(rows, larger, scale_is_odd & (larger > 0))
    readable = ~(scale_is_odd & (larger == 0))
    comparison, trusted = _without_the_odd(rows, readable)
    for check, factors in _factors(comparison, trusted).items():
        for k in np.flatnonzero((factors >= LIMITS[check][0]) & readable).tolist():
            reason = _REASONS[check].format(factor=factors[k])
            if check == "classes":
                reason = _labels_reason(rows, comparison, k) or reason
            odd.append((k, check, float(factors[k]), reason))
    return odd


def _in_one_scale(rows: _Rows, larger: _FLOAT, odd: NDArray[np.bool_]) -> _Rows:
    """Return the rows with those of odd sites in the others' scale."""
    if rows.sites == 2:  # in that of the smaller
        odd = odd & (larger > 1)
    changed = odd[rows.site] & (larger != 1)[rows.site]
    if not changed.any():
        return rows
    means = rows.means.copy()
    for some in _parts_of(len(means)):
        of_odd = means[some][changed[some]] + rows.origin
        of_odd /= larger[rows.site[some][changed[some]], None]
        means[some][changed[some]] = of_odd - rows.origin
    return replace(rows, means=means)


def _without_the_odd(
    rows: _Rows, readable: NDArray[np.bool_]
) -> tuple[_Comparison, NDArray[np.bool_]]:
    """Compare all sites with those that agree; return which those are.

    The worst is taken out first: where sites are few, it moves the others' reference.
    """
    trusted = readable.copy()
    while True:
        comparison = _compare(rows, trusted)
        excess = _excess(comparison, trusted)
        doubtful = trusted & (excess >= 1)
        if not doubtful.any() and trusted.sum() > _SMALL:
            return comparison, trusted
        fewer = trusted & ~(doubtful & (excess >= excess[trusted].max() / 2))
        if not doubtful.any():
            fewer = trusted & (np.arange(len(trusted)) != _farthest(comparison, trusted))
        if 2 * fewer.sum() <= len(trusted):
            return comparison, trusted
        without = _compare(rows, fewer)
        if not (_excess(without, fewer)[trusted & ~fewer] >= 1).all():
            return comparison, trusted
        trusted = fewer


def _farthest(comparison: _Comparison, trusted: NDArray[np.bool_]) -> int:
    distance = comparison.distance / comparison.error
    return int(np.where(trusted, distance, -1).argmax())


def _excess(comparison: _Comparison, trusted: NDArray[np.bool_]) -> _FLOAT:
    """Return how far every site is beyond the limit of its worst check."""
    factors = _factors(comparison, trusted)
    beyond = [values / LIMITS[check][0] for check, values in factors.items()]
    return np.asarray(np.max(beyond, axis=0))


def _noise(comparison: _Comparison, trusted: NDArray[np.bool_]) -> float:
    """Return the variance within a class, s, or more where the sites differ by more than noise."""
    return float(np.median(comparison.noise[trusted]))


def _factors(comparison: _Comparison, trusted: NDArray[np.bool_]) -> dict[Check, _FLOAT]:
    noise = _noise(comparison, trusted)
    few = trusted.sum() < 3
    # classes
    lower = float(np.quantile(comparison.noise[trusted], 0.25))  # domains differ by more than noise
    uncertain = 2 * np.sqrt(lower / np.maximum(comparison.precision, 1e-300))
    slopes = comparison.slope[trusted & np.isfinite(comparison.slope)]
    usual = 1.0 if few or not len(slopes) else min(1.0, float(np.median(slopes)))
    most = np.maximum(comparison.slope + uncertain, 0)
    classes = np.where(np.isfinite(most), usual / np.maximum(most, 1e-3), 1.0)
    classes[noise * comparison.blur > _BLUR] = 1.0
    if usual < 1 / LIMITS["classes"][0]:  # the classes differ from site to site everywhere
        classes = np.ones_like(classes)
    # shift
    rest = comparison.rest
    floor = _SEPARATION["shift of two" if few else "shift"] ** 2 * comparison.separation
    if not few:
        usual_shift = float(np.median(comparison.shift[trusted]))
        rest = np.maximum(np.maximum(rest, usual_shift), noise * comparison.error)
    shift = np.sqrt(comparison.shift / np.maximum(np.maximum(rest, floor), 1e-300))
    shift[~np.isfinite(comparison.slope)] = 1.0
    # place
    chance = 3 * np.sqrt(comparison.along * noise * comparison.error)
    beyond = _beyond(comparison.distance, comparison.error, trusted, np.inf, chance)
    if few:  # there are no distances of others
        beyond = np.full(len(beyond), np.inf)
    least = np.maximum(comparison.reach, noise * comparison.error if few else 1e-300)
    place = np.sqrt(np.minimum(beyond, comparison.distance / least))
    return {"classes": classes, "shift": shift, "place": place}


def _scale_factors(rows: _Rows, noise: float) -> _FLOAT:
    """Return how much larger the features of every site are than those of the others."""
    samples = rows.by_site(rows.counts)
    lengths = np.concatenate(
        [
            np.square(rows.means[some] + rows.origin).sum(axis=1)
            for some in _parts_of(len(rows.site))
        ]
    )
    squares = rows.by_site(rows.counts * lengths) / samples
    error = np.bincount(rows.site, minlength=rows.sites) / samples
    along = max(0.05, 1 / rows.means.shape[1])  # the share of the variance along a mean
    chance = 2 * np.sqrt(along * noise / samples) if np.isfinite(noise) else 0.0
    everybody = np.ones(rows.sites, dtype=np.bool_)
    return np.sqrt(_beyond(squares, error, everybody, noise, chance))


def _beyond(
    squares: _FLOAT,
    error: _FLOAT,
    trusted: NDArray[np.bool_],
    noise: float = np.inf,
    chance: _FLOAT | float = 0.0,
) -> _FLOAT:
    """Return by what factor a square is beyond the range that the other sites give it.

    A square is ``a + s error``; `noise` is an upper bound of s, and `chance` what its root may be
    off.

    Returns
    -------
    ndarray of float64, shape (sites,)
        The median over other trusted sites; of two medians the one that is nearer to 1.
    """
    judges = np.flatnonzero(trusted)
    judges = judges[np.unique(np.linspace(0, len(judges) - 1, _JUDGES).astype(np.int64))]
    chances = np.broadcast_to(chance, squares.shape)
    blocks = np.array_split(np.arange(len(squares)), -(-len(squares) // _SITES_AT_ONCE))
    return np.concatenate(
        [
            _judged(
                squares[sites],
                error[sites],
                chances[sites],
                theirs=squares[judges],
                their_error=error[judges],
                noise=noise,
                own=sites[:, None] == judges,
            )
            for sites in blocks
        ]
    )


def _judged(
    squares: _FLOAT,
    error: _FLOAT,
    chance: _FLOAT,
    *,
    theirs: _FLOAT,
    their_error: _FLOAT,
    noise: float,
    own: NDArray[np.bool_],
) -> _FLOAT:
    """Return `_beyond` of some sites, by judges of which a site is no own one."""
    more = np.maximum(error[:, None] - their_error, 0)
    less = np.maximum(their_error - error[:, None], 0)
    growth = np.maximum(error[:, None] / their_error, 1)
    decline = np.minimum(error[:, None] / their_error, 1)
    tiny = np.finfo(np.float64).tiny
    with np.errstate(over="ignore", invalid="ignore"):  # of a noise without a bound
        highest = np.fmin(theirs + noise * more, theirs * growth)
        lowest = np.fmax(theirs - noise * less, theirs * decline)
    least = np.square(np.maximum(np.sqrt(squares) - chance, 0))[:, None]
    most = np.square(np.sqrt(squares) + chance)[:, None]
    with np.errstate(over="ignore", divide="ignore"):  # beside sites whose features are all 0
        beyond = np.where(least > highest, least / np.maximum(highest, tiny), 1.0)
        beyond = np.where(most < lowest, most / np.maximum(lowest, tiny), beyond)
    beyond[own] = np.nan  # nobody judges himself
    return _medians(beyond)


def _medians(values: _FLOAT) -> _FLOAT:
    """Return the median of every row without its NaN; of two middle ones that nearer to 1."""
    ascending = np.sort(values, axis=1)
    known = len(values[0]) - np.isnan(values).sum(axis=1)
    row = np.arange(len(values))
    with np.errstate(divide="ignore"):
        lower, upper = (
            ascending[row, middle] for middle in (np.maximum(known - 1, 0) // 2, known // 2)
        )
        nearer = np.where(np.abs(np.log(lower)) <= np.abs(np.log(upper)), lower, upper)
    return np.where(known > 0, nearer, 1.0)


def _scale_reason(larger: float) -> str:
    if larger == 0:
        return "all its features are 0"
    times = f"{larger:.3g} times" if larger >= 1 else f"1/{1 / larger:.3g} of"
    return (
        f"its features are {times} the size of the other sites'; is the unit, the normalisation or "
        "the backbone another one?"
    )


_REASONS: dict[Check, str] = {
    "classes": "its classes do not differ from each other as the other sites' do; are the labels "
    "or the backbone other ones?",
    "shift": "all its classes are moved alike, {factor:.2g} times as far as they lie from the "
    "other sites' otherwise; is the preprocessing another one?",
    "place": "its features lie {factor:.2g} times as far from the other sites' as those from each "
    "other; is the backbone or the preprocessing another one?",
}


def _labels_reason(rows: _Rows, comparison: _Comparison, site: int) -> str:
    """Return which of the others' classes a site's classes fit; empty where they fit none."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    mine = np.flatnonzero((rows.site == site) & comparison.reference.shared)
    weight = comparison.reference.weight(mine)[:, None]
    own, theirs = (
        array - (weight * array).sum(axis=0) / weight.sum()
        for array in (rows.means[mine], comparison.reference(mine))
    )
    fit = own @ theirs.T
    row, column = linear_sum_assignment(fit, maximize=True)
    if fit[row, column].sum() < _FIT * np.square(theirs).sum():
        return ""
    names = [repr(rows.labels[label]) for label in rows.label[mine]]
    pairs = [f"its {names[i]} fits their {names[j]}" for i, j in zip(row, column, strict=True)]
    moved = [pair for i, j, pair in zip(row, column, pairs, strict=True) if names[i] != names[j]]
    return (
        f"its classes fit other classes of the other sites better: {', '.join(moved[:3])}"
        f"{', ...' if len(moved) > 3 else ''}; are its labels in another order?"
    )
