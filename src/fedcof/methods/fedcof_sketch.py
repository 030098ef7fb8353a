"""FedCOFSketch: class means and sketches of the scatter about them, within a budget of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from fedcof.choosing import HeldOutMeans, held_out_rows
from fedcof.codings import AUTO
from fedcof.errors import naming
from fedcof.methods.base import Outline
from fedcof.methods.fedcof import statistics_of
from fedcof.methods.passes import (
    ClassPoints,
    ClassScatter,
    Pass,
    PickedRows,
    PickRows,
    Roll,
    RollCall,
    Together,
)
from fedcof.methods.sketched import Sketched, SketchedScatter
from fedcof.methods.spending import highest_rank, plan_lift, spend
from fedcof.numerics import outer_products, rounding, type_of_products
from fedcof.scatter import ClassStatistics, one_after_the_other
from fedcof.settings import Auto, setting
from fedcof.summaries import ClassMeans, ScatterSketch, Summary
from fedcof.summaries.base import TRANSFORM
from fedcof.summaries.samples import Seed, check_samples
from fedcof.transforms import NO_TRANSFORM, RandomFeatures, Transform

_CODING = "means=int8,vectors=int4"
"""Where the rank is given."""

_FOLDS = 5
"""Every client is left out once, in a fold."""

_GROWS = 0.05
"""Above this growth of the spread with the samples behind a mean, something is in it beside the
spread of samples: shift, or the rounding of means that are sent in few bits."""


@dataclass(frozen=True, eq=False)
class ClientSketches(SketchedScatter):
    """What clients sent, and the scatter that it gives.

    Parameters
    ----------
    parts : sequence of ScatterSketch
        In the order of the clients.
    statistics : ClassStatistics
        Their means.
    between : ndarray of float64, shape (dim, dim)
        The scatter between the clients' means of a class.
    num_means : int
        How many means came.
    """

    parts: Sequence[ScatterSketch]
    statistics: ClassStatistics
    between: NDArray[np.float64]
    num_means: int

    @classmethod
    def of(
        cls, parts: Sequence[ScatterSketch], kept: NDArray[np.bool_] | None = None
    ) -> ClientSketches:
        """Pool what clients sent.

        Parameters
        ----------
        parts : sequence of ScatterSketch
            In the order of the clients.
        kept : ndarray of bool, shape (clients,), optional
            Which of the clients; all by default, without a copy.
        """
        means, vectors = [part.means for part in parts], [part.vectors for part in parts]
        counts, labels, traces, ranks, rows = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("counts", "classes", "trace", "rank_per_client", "rows_per_client")
        )
        clients = np.repeat(np.arange(len(rows)), rows)
        if kept is not None:
            of_row, of_vector = np.repeat(kept, rows), np.repeat(kept, ranks)
            means, vectors = _rows_of(means, of_row), _rows_of(vectors, of_vector)
            counts, labels, clients = counts[of_row], labels[of_row], clients[of_row]
            traces = traces[kept]
        statistics = ClassStatistics.gather(means, counts, labels, clients)
        class_means, between = statistics.scatter_of_means()
        return cls(
            **_known(
                statistics.classes,
                statistics.class_counts,
                class_means,
                num_means=len(counts),
                between=between,
                sketch=outer_products(vectors, type_of_products(vectors)),
                left=float(traces.sum(dtype=np.float64)),
            ),
            parts=parts,
            statistics=statistics,
        )

    @property
    def clients(self) -> int:
        """How many clients sent the parts."""
        return sum(len(part.client_ids) for part in self.parts)

    def only(self, fold: int) -> ClientSketches:
        """Return what the clients of a fold sent."""
        return ClientSketches.of(self.parts, self.of_fold(fold))

    def without(self, fold: int) -> ClientSketches:
        """Return what the clients of the other folds sent."""
        return ClientSketches.of(self.parts, ~self.of_fold(fold))

    def of_fold(self, fold: int) -> NDArray[np.bool_]:
        """Return which clients are in a fold."""
        return np.asarray(np.arange(self.clients) % folds_of(self.clients) == fold)

    def within_clients(self) -> NDArray[np.float64]:
        """Return the covariance within the clients, half of what is left spread evenly."""
        freedom = int(self.class_counts.sum()) - self.num_means
        return np.asarray((self.scatter(0.5).within_scatter - self.between) / max(1, freedom))


def folds_of(clients: int) -> int:
    """Return in how many folds so many clients are left out."""
    return min(clients, _FOLDS)


def _known(
    classes: NDArray[Any],
    class_counts: NDArray[np.int64],
    class_means: NDArray[np.float64],
    *,
    num_means: int,
    between: NDArray[np.float64],
    sketch: NDArray[np.float64],
    left: float,
) -> dict[str, Any]:
    """Return the fields of `ClientSketches` but for what the clients sent themselves."""
    freedom = num_means - len(classes)
    within_clients = int(class_counts.sum()) - num_means
    by_means = between * (within_clients / freedom) if freedom else np.zeros_like(between)
    return {
        "classes": classes,
        "class_counts": class_counts,
        "class_means": class_means,
        "known": between + sketch,
        "left": left,
        "shape": shape_of_rest(by_means, sketch),
        "sphere": np.eye(len(sketch)) / len(sketch),
        "between": between,
        "num_means": num_means,
    }


@dataclass(frozen=True, eq=False)
class SketchSums:
    """What of some clients' sketches adds up.

    Parameters
    ----------
    means : ClassScatter
        Of the means, each weighted by its samples.
    sketch : ndarray of float64, shape (dim, dim)
        The sum of the outer products of all vectors.
    left : float
        The trace of the rest.
    """

    means: ClassScatter
    sketch: NDArray[np.float64]
    left: float

    def __add__(self, other: SketchSums) -> SketchSums:
        return SketchSums(
            self.means + other.means, self.sketch + other.sketch, self.left + other.left
        )

    def known(self) -> dict[str, Any]:
        """Return the fields of `ClientSketches` that it gives."""
        totals = self.means.totals
        return _known(
            totals.classes,
            totals.counts,
            self.means.means,
            num_means=int(totals.rows.sum()),
            between=self.means.scatter,
            sketch=self.sketch,
            left=self.left,
        )


@dataclass(frozen=True, eq=False)
class SketchPass(Pass[list[SketchSums | None]]):
    """The sums over the clients of every fold.

    Parameters
    ----------
    folds : mapping of str to int, optional
        The fold of every client; all in one by default.
    points : ClassPoints, optional
        What the scatter of the means is summed about; see `fedcof.methods.passes.ScatterPass`.
    """

    folds: Mapping[str, int] | None = None
    points: ClassPoints | None = None

    def partial(self, parts: Sequence[ScatterSketch]) -> list[SketchSums | None]:
        """Sum over what these clients sent."""
        if self.folds is None:
            return [_sums_of(parts, self.points)]
        of_fold: list[list[ScatterSketch]] = [[] for _ in range(_FOLDS)]
        for part in (own for merged in parts for own in merged.apart()):
            of_fold[self.folds[part.client_ids[0]]].append(part)
        return [_sums_of(some, self.points) if some else None for some in of_fold]

    def add(
        self, first: list[SketchSums | None], second: list[SketchSums | None]
    ) -> list[SketchSums | None]:
        """Add fold by fold."""
        pairs = zip(first, second, strict=True)
        return [a if b is None else b if a is None else a + b for a, b in pairs]

    def finish(self, total: list[SketchSums | None]) -> object:
        """Return the folds that have clients; or the same pass about the class means."""
        folds = [sums for sums in total if sums is not None]
        means = reduce(add, folds).means
        if self.points is None and not means.is_exact:
            return replace(self, points=ClassPoints(means.totals.classes, means.means))
        return folds


def _sums_of(parts: Sequence[ScatterSketch], points: ClassPoints | None) -> SketchSums:
    labels = np.concatenate([part.classes for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    vectors = [part.vectors for part in parts]
    return SketchSums(
        ClassScatter.of([part.means for part in parts], labels, counts, points=points),
        outer_products(vectors, np.float64),
        float(sum(part.trace.sum(dtype=np.float64) for part in parts)),
    )


@dataclass(frozen=True, eq=False)
class StreamedSketches(ClientSketches):
    """The same of clients whose sketches are gone, with the sums of every fold of them.

    Parameters
    ----------
    folds : sequence of SketchSums
    number : int
        How many clients there are.
    """

    folds: Sequence[SketchSums]
    number: int

    @classmethod
    def of_folds(
        cls,
        number: int,
        folds: Sequence[SketchSums],
        picked: PickedRows | None = None,
    ) -> StreamedSketches:
        """Pool the folds; the rows that were kept are those that are left out in turn."""
        total = reduce(add, folds)
        means = total.means
        statistics = statistics_of(means.totals, picked) or ClassStatistics.of_classes(
            means.totals.classes, means.totals.counts, means.means
        )
        return cls(**total.known(), parts=(), statistics=statistics, folds=folds, number=number)

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return self.number

    def only(self, fold: int) -> ClientSketches:
        """Return what the clients of a fold sent."""
        return self.of_folds(self.number, [self.folds[fold]])

    def without(self, fold: int) -> ClientSketches:
        """Return what the clients of the other folds sent."""
        others = [sums for k, sums in enumerate(self.folds) if k != fold]
        return self.of_folds(self.number, others)


def _rows_of(
    arrays: Sequence[NDArray[np.floating[Any]]], kept: NDArray[np.bool_]
) -> list[NDArray[np.floating[Any]]]:
    """Return the rows that are kept of arrays that stand one after the other."""
    return [
        array[of_array]
        for array, of_array in zip(
            arrays, np.split(kept, np.cumsum([len(array) for array in arrays])[:-1]), strict=True
        )
    ]


@dataclass(frozen=True, kw_only=True)
class FedCOFSketch(Sketched[ScatterSketch]):
    """A classifier from class means and from sketches of the scatter that they do not show.

    A client sends the mean of every class, the largest eigenpairs of the scatter about them, and
    the trace of the rest: `ScatterSketch`. The server adds the scatter between the means of the
    clients, which it knows exactly, and the sketches. What is left has a known trace; its shape is
    estimated, `shape_of_rest`.

    How many eigenpairs, and in which precision everything travels, each client finds from its
    budget and from what it holds; see `fedcof.methods.spending`.

    Parameters
    ----------
    rank : int or "auto", default "auto"
        How many eigenpairs a client sends, if it has as many. "auto" is what the budget allows.
    budget : float, default 1.0
        The bytes that a client may send, as a multiple of those that FedCOF sends for the same
        classes, in float32 and with all that goes over the wire. A client for which the means alone
        are more sends the means.
    budget_mb : float, default 0.0
        The same in megabytes, 10**6 bytes; above 0 it goes before `budget`.
    lift : int or "auto", default "auto"
        To how many random ReLU features all clients lift theirs, 0 for none. "auto" is 4 or 8 times
        their length where it pays; that is planned where the clients are known beforehand (`fedcof
        demo`, `federate`, the experiments). In the app of Flower and in `fedcof summarize` they are
        not, and nothing is lifted. See `fedcof.methods.spending.plan_lift`.
    shrinkage, shrinkage_relative, rho, form, priors
        As in `Sketched`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> method = FedCOFSketch(rank=2)
    >>> sites = []
    >>> for name in ("a", "b", "c"):
    ...     labels = rng.integers(2, size=20)
    ...     features = rng.normal(size=(20, 4)) + 3.0 * labels[:, None]
    ...     sites.append(method.summarize(features, labels, client_id=name))
    >>> method.solve(sites).weight.shape
    (2, 4)
    """

    name: ClassVar[str] = "fedcof-sketch"
    summary_type: ClassVar[type[Summary]] = ScatterSketch

    rank: int | Auto = setting(
        "auto",
        "Eigenpairs that a client sends; auto is what the budget allows.",
        minimum=0,
        client=True,
    )
    budget: float = setting(
        1.0,
        "Bytes that a client may send, as a multiple of those of fedcof.",
        above=0,
        client=True,
    )
    budget_mb: float = setting(
        0.0,
        "Megabytes that a client may send, in place of the budget; 0 for the budget.",
        minimum=0,
        client=True,
    )
    lift: int | Auto = setting(
        "auto",
        "Random features to which all clients lift theirs; 0 for none, auto where it pays.",
        minimum=0,
        client=True,
    )

    @property
    def coding(self) -> str:
        """What every client finds for itself."""
        return AUTO

    def settle(self, outline: Outline, coding: str) -> tuple[Self, str]:
        """Return the method with the rank that one client sends, and the coding."""
        most = outline.dim
        if outline.samples is not None:
            most = min(outline.samples - len(outline.classes), most)
        if not isinstance(self.rank, str):
            rank, chosen = min(self.rank, most), _CODING if coding == AUTO else coding
            return replace(self, rank=rank), chosen

        def size(coding: str, rank: int) -> int:
            return outline.encoded_size(ScatterSketch, {"rank": rank}, coding)[1]

        allowance = self._allowance(outline)
        if coding == AUTO:
            coding, rank = spend(allowance, size, most)
        else:
            rank = highest_rank(allowance, partial(size, coding), most)
        return replace(self, rank=rank), coding

    @property
    def lifting(self) -> Transform:
        """The random features that are asked for."""
        asked = 0 if isinstance(self.lift, str) else self.lift
        return RandomFeatures(asked) if asked else NO_TRANSFORM

    def plan(self, dim: int, clients: Iterable[tuple[int, int]], num_classes: int) -> Transform:
        """Return the random features that pay, where the method is left to find them."""

        def rank(classes: int, samples: int, lifted: int) -> int | None:
            outline = Outline(np.arange(classes), samples, lifted, dim)
            settled, coding = self.settle(outline, self.coding)
            too_large = outline.encoded_size(ScatterSketch, {"rank": settled.rank}, coding)[
                1
            ] > self._allowance(outline)
            return None if too_large else cast("int", settled.rank)

        if self.lift != "auto":
            return NO_TRANSFORM
        features = plan_lift(dim, clients, num_classes, rank)
        return RandomFeatures(features) if features else NO_TRANSFORM

    def _allowance(self, outline: Outline) -> float:
        """Return the bytes that a client may send."""
        if self.budget_mb > 0:
            return self.budget_mb * 1e6
        raw = {name: text for name, text in outline.origin.items() if name != TRANSFORM}
        _, wire_bytes = ClassMeans.encoded_size(
            outline.classes, {"dim": outline.raw_dim}, client_id=outline.client_id, origin=raw
        )
        return self.budget * wire_bytes

    def summarize(
        self, features: ArrayLike, labels: ArrayLike, *, client_id: str = "", rng: Seed = None
    ) -> ScatterSketch:
        """Return what a client sends; the budget is that of features as they come here."""
        if isinstance(self.rank, str):  # auto
            with naming(client_id):
                array, coded = check_samples(features, labels)
            outline = Outline(
                np.unique(coded), len(array), array.shape[1], array.shape[1], client_id
            )
            settled, _ = self.settle(outline, self.coding)
            return settled.summarize(features, labels, client_id=client_id)
        return ScatterSketch.summarize(features, labels, client_id=client_id, rank=self.rank)

    def sent_settings(self, parts: Sequence[ScatterSketch]) -> dict[str, int]:
        """Return the highest rank that a client sent."""
        return {"rank": max(int(part.rank_per_client.max()) for part in parts)}

    def pool(self, parts: Sequence[ScatterSketch]) -> ClientSketches:
        """Return the class means and what is known of the scatter about them."""
        return ClientSketches.of(one_after_the_other(parts))

    def streamed(self) -> Pass[Any]:
        """Return the one pass for the sums; where something is chosen, one that counts first."""
        chosen = isinstance(self.shrinkage, str) and not self.shrinkage_relative
        if chosen or isinstance(self.rho, str):
            return RollCall(_in_folds)
        return Together([SketchPass()], partial(StreamedSketches.of_folds, 0))

    def accuracies(
        self, pooled: ClientSketches, rhos: Sequence[float], relatives: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """Return the accuracy to be expected, shape (rhos, relatives).

        The clients are left out a fold at a time. The rest gives the scatter; the deviations of the
        fold's means from those of their classes make the samples that it is scored with, as
        `fedcof.choosing.HeldOutMeans` has it. If most of the spread is shift, the noise of a sample
        is that of the fold's own scatter.
        """
        statistics, clients = pooled.statistics, pooled.clients
        if statistics.means_per_class.max() < 2 or clients < 2:
            return None
        held_out = HeldOutMeans.of(statistics, pooled.class_means)
        growth = held_out.growth
        if not growth.is_shift and growth.exponent > max(_GROWS, 2 * growth.error):
            return None  # rounding: the samples that such means make would ask for more shrinkage
        regression = self.form == "regression"
        log_priors = None if regression else self.log_priors(pooled.scatter(1.0))
        freedom = int(pooled.class_counts.sum()) - len(pooled.classes)
        found = np.zeros((len(rhos), len(relatives)))
        for fold in range(folds_of(clients)):
            scored = held_out.only(pooled.of_fold(fold)[held_out.client_index])
            rest = pooled.without(fold)
            if not len(scored.counts) or rest.class_counts.sum() == len(rest.classes):
                continue
            noise = None
            if growth.is_shift:
                noise = pooled.only(fold).within_clients()
            for place, rho in enumerate(rhos):
                scatter = rest.scatter(rho)
                matrix = scatter.covariance(0.0)
                if regression:  # G over its degrees of freedom
                    matrix += held_out.scatter_of_mean / freedom
                found[place] += scored.accuracies(
                    linalg.eigh(matrix),
                    scatter.mean_variance * relatives,
                    np.zeros(len(scored.counts)),
                    log_priors=log_priors,
                    noise=noise,
                )
        return found


def _in_folds(roll: Roll) -> Pass[Any]:
    """Return the pass that sums fold by fold, and keeps the means that are left out in turn."""
    clients = len(roll.client_ids)
    folds = {name: k % folds_of(clients) for k, name in enumerate(roll.client_ids)}
    rows = held_out_rows(roll.totals.rows, roll.class_index)
    passes: list[Pass[Any]] = [SketchPass(folds), PickRows(roll.wanted(rows))]
    return Together(passes, partial(StreamedSketches.of_folds, clients))


def shape_of_rest(
    by_means: NDArray[np.float64], sketch: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return an estimate of the scatter that the clients' sketches do not hold, of trace 1.

    The mean of two estimates, of which neither needs the other:

    - from the clients' means as FedCOF has it, less the sketches, with the negative eigenvalues at
      0. It is unbiased before that, and has as many degrees of freedom as there are means more than
      classes;
    - the square root of the sketches. They hold most of the directions in which a client's scatter
      is large and little of the others, so what is left of a direction grows with what is sketched
      of it, and more slowly.

    Parameters
    ----------
    by_means : ndarray of float64, shape (dim, dim)
        The scatter within the clients as it is estimated from their means; zeros if it is not.
    sketch : ndarray of float64, shape (dim, dim)
        The sum of the outer products of all vectors.

    Returns
    -------
    ndarray of float64, shape (dim, dim)
        ``I / dim`` where there is neither.
    """
    estimates = []
    for matrix, power in ((by_means - sketch, 1.0), (sketch, 0.5)):
        if not matrix.any():  # nothing is known of it
            continue
        values, basis = linalg.eigh(matrix)
        values = np.where(values > rounding(values[-1], len(values)), values, 0.0) ** power
        if (trace := values.sum()) > 0:
            estimates.append((basis * (values / trace)) @ basis.T)
    if not estimates:
        return np.eye(len(sketch)) / len(sketch)
    return np.asarray(sum(estimates) / len(estimates))
