"""FedCOF: covariances for free (algorithm 1)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcof.choosing import held_out_rows
from fedcof.errors import FewMeansWarning, SettingError, StreamingError
from fedcof.methods.passes import (
    ROBUST,
    Census,
    ClassScatter,
    ClassTotals,
    ClassWeights,
    Pass,
    PickedRows,
    PickRows,
    Roll,
    RollCall,
    ScatterPass,
    Together,
    same,
)
from fedcof.methods.shrunk import Shrunk
from fedcof.scatter import (
    ClassStatistics,
    PickedStatistics,
    Scatter,
    ScatterParts,
    one_after_the_other,
)
from fedcof.settings import Auto, setting
from fedcof.summaries import ClassMeans, Summary


@dataclass(frozen=True)
class FedCOF(Shrunk[ClassMeans]):
    """A classifier from class means and the covariances estimated from their spread.

    The client sends what FedNCM's sends. The server estimates every class's covariance from the
    clients' means (eq. final-cov-estimate), and solves with the within-class scatter in place of
    the Gram matrix (eq. classifier-init).

    Parameters
    ----------
    shrinkage : float or "auto", default 1.0
        gamma, added to the diagonal of every class's covariance; "auto" chooses it from the means.
    scatter : {"within", "between", "both"}, default "within"
        Which scatter goes into G beside ``N mu_g mu_g^T`` and the shrinkage; the paper's ablation.
    means_per_class : int, default 1
        How many means of disjoint random sets a client sends for a class (appendix D).
    robust : bool, default False
        Whether class means and scatter are those that no minority of the clients can move far; see
        `fedcof.robust`. It takes medians over all means, so the server must hold them all.
    shrinkage_relative, form, priors
        As in `Shrunk` and `ClosedForm`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> method = FedCOF()
    >>> sites = []
    >>> for name in ("a", "b", "c"):
    ...     labels = rng.integers(2, size=20)
    ...     features = rng.normal(size=(20, 4)) + 3.0 * labels[:, None]
    ...     sites.append(method.summarize(features, labels, client_id=name))
    >>> method.solve(sites).weight.shape
    (2, 4)
    """

    name: ClassVar[str] = "fedcof"
    summary_type: ClassVar[type[Summary]] = ClassMeans

    shrinkage: float | Auto = setting(
        1.0, "gamma, on the diagonal of every class's covariance; auto chooses it.", minimum=0
    )
    scatter: ScatterParts = setting("within", "Which scatter G holds beside the global mean's.")
    means_per_class: int = setting(
        1, "Means of disjoint random sets that a client sends for a class.", minimum=1, client=True
    )

    robust: bool = setting(
        False, "Let no minority of the clients move a class far; see fedcof.robust."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form == "lda" and self.scatter != "within":
            raise SettingError("scatter", f"is {self.scatter!r}; the form lda has within alone")

    @property
    def rows_per_class(self) -> int:
        """As many as there are means."""
        return self.means_per_class

    def sent_settings(self, parts: Sequence[ClassMeans]) -> dict[str, int]:
        """Return how many means of one class a client sent at most."""
        rows = np.concatenate([part.rows_per_client for part in parts])
        labels = np.concatenate([part.classes for part in parts])
        client_index = np.repeat(np.arange(len(rows)), rows)
        of_next_client = client_index[1:] > client_index[:-1]
        if (of_next_client | (labels[1:] > labels[:-1])).all():  # without sorting all rows
            return {"means_per_class": 1}
        _, class_index = np.unique(labels, return_inverse=True)
        pairs = client_index * (class_index.max() + 1) + class_index
        return {"means_per_class": int(np.unique(pairs, return_counts=True)[1].max())}

    def pool(self, parts: Sequence[ClassMeans]) -> Scatter:
        """Return the scatter estimated from the means.

        Warns
        -----
        FewMeansWarning
            If no class has two means, as from one client: all that is left is the shrinkage.
        """
        statistics = ClassStatistics.of(parts, robust=self.robust)
        warn_of_few_means(statistics.means_per_class)
        return self.estimate(statistics)

    def pools_without(
        self, parts: Sequence[ClassMeans], pooled: Scatter, places: Sequence[int]
    ) -> Iterator[Scatter | None]:
        """Yield the scatter less what a summary added, where that is all that it changed."""
        again = partial(super().pools_without, parts, pooled)
        estimated = self.robust or type(self).estimate is not FedCOF.estimate
        if estimated or one_after_the_other(parts) is not parts or pooled.statistics is None:
            yield from again(places)
            return
        starts = np.cumsum([0, *(len(part.classes) for part in parts)]).tolist()
        left = pooled.without([slice(starts[k], starts[k + 1]) for k in places])
        for place, scatter in zip(places, left, strict=True):
            yield next(again([place])) if scatter is None else scatter

    def streamed(self) -> Pass[Any]:
        """Return a pass that counts, for the weights of the classes; the scatter comes next."""
        if self.robust:
            raise StreamingError(self.name, ROBUST)
        if type(self).estimate is not FedCOF.estimate:
            raise StreamingError(self.name, self.needs_all)
        return RollCall(self._picking) if self._chooses else Census(self._weighted)

    @property
    def _chooses(self) -> bool:
        return isinstance(self.shrinkage, str) and not self.shrinkage_relative

    def _picking(self, roll: Roll) -> Pass[Any]:
        """Return the pass that also keeps the means which are left out in turn."""
        rows = held_out_rows(roll.totals.rows, roll.class_index)
        return self._weighted(roll.totals, [PickRows(roll.wanted(rows))])

    def _weighted(self, totals: ClassTotals, picks: Sequence[PickRows] = ()) -> Pass[Any]:
        """Return the pass for the scatter, the weights as `ClassStatistics.scatter` has them."""
        warn_of_few_means(totals.rows)
        weights = (totals.counts - 1) / np.maximum(1, totals.rows - 1)
        # A class of one sample has no scatter, but its mean counts.
        positive = ClassWeights(totals.classes, np.where(weights > 0, weights, 1.0))
        return Together([ScatterPass(same, positive), *picks], partial(scatter_of, weights))

    def estimate(self, statistics: ClassStatistics) -> Scatter:
        """Return the scatter estimated class by class (eq. final-cov-estimate)."""
        return statistics.scatter()

    def gram(self, pooled: Scatter) -> NDArray[np.float64]:
        """Return G of eq. classifier-init."""
        return pooled.gram(self.gamma, self.scatter)

    def regression(self, scatter: Scatter) -> NDArray[np.float64]:
        """Return G without its shrinkage."""
        return scatter.gram(0.0, self.scatter)

    def covariance(self, scatter: Scatter) -> NDArray[np.float64]:
        """Return the pooled covariance, gamma on its diagonal."""
        return scatter.covariance(self.gamma)


def warn_of_few_means(means_per_class: NDArray[np.int64]) -> None:
    """Warn if no class has two means."""
    if means_per_class.max() < 2:
        warnings.warn(
            "every class has one mean, so no covariance can be estimated and only the "
            "shrinkage is left: let clients send several means (means_per_class)",
            FewMeansWarning,
            stacklevel=4,
        )


def scatter_of(
    class_weights: NDArray[np.float64], total: ClassScatter, picked: PickedRows | None = None
) -> Scatter:
    """Return a scatter that was summed in passes, with the means that were kept, if there are."""
    totals, statistics = total.totals, statistics_of(total.totals, picked)
    return Scatter(
        totals.classes, total.means, totals.counts, total.scatter, statistics, class_weights
    )


def statistics_of(totals: ClassTotals, picked: PickedRows | None) -> PickedStatistics | None:
    """Return the means that were kept, beside the totals of all; None if there are none."""
    if picked is None:
        return None
    return PickedStatistics(
        means=[picked.arrays["means"]],
        counts=picked.counts,
        class_index=totals.places(picked.labels),
        classes=totals.classes,
        class_counts=totals.counts,
        client_index=picked.clients,
        all_rows=totals.rows,
    )
