"""FedCOFSketch: class means and sketches of the scatter about them, within a budget of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from fedcof.choosing import HeldOutMeans
from fedcof.codings import AUTO
from fedcof.errors import naming
from fedcof.methods.base import Outline
from fedcof.methods.sketched import Sketched, SketchedScatter
from fedcof.methods.spending import highest_rank, plan_lift, spend
from fedcof.numerics import outer_products, rounding
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
    """

    parts: Sequence[ScatterSketch]
    statistics: ClassStatistics
    between: NDArray[np.float64]

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
        sketch = outer_products(vectors, np.result_type(*vectors))
        freedom = len(counts) - len(statistics.classes)
        within_clients = int(counts.sum()) - len(counts)
        by_means = between * (within_clients / freedom) if freedom else np.zeros_like(between)
        return cls(
            classes=statistics.classes,
            class_counts=statistics.class_counts,
            class_means=class_means,
            known=between + sketch,
            left=float(traces.sum(dtype=np.float64)),
            shape=shape_of_rest(by_means, sketch),
            sphere=np.eye(len(sketch)) / len(sketch),
            parts=parts,
            statistics=statistics,
            between=between,
        )

    @property
    def clients(self) -> int:
        """How many clients sent the parts."""
        return sum(len(part.client_ids) for part in self.parts)

    def within_clients(self) -> NDArray[np.float64]:
        """Return the covariance within the clients, half of what is left spread evenly."""
        freedom = int(self.class_counts.sum()) - len(self.statistics.counts)
        return np.asarray((self.scatter(0.5).within_scatter - self.between) / max(1, freedom))


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
        folds = min(clients, _FOLDS)
        found = np.zeros((len(rhos), len(relatives)))
        for fold in range(folds):
            of_fold = np.arange(clients) % folds == fold
            scored = held_out.only(of_fold[held_out.client_index])
            rest = ClientSketches.of(pooled.parts, ~of_fold)
            if not len(scored.counts) or rest.class_counts.sum() == len(rest.classes):
                continue
            noise = None
            if growth.is_shift:
                noise = ClientSketches.of(pooled.parts, of_fold).within_clients()
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
