"""Methods with a shrinkage: in the paper's unit, relative to the variance, or chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcof.choosing import Choice, HeldOutMeans, ridge_by_evidence
from fedcof.methods.closed_form import ClosedForm, class_priors
from fedcof.scatter import Scatter
from fedcof.settings import Auto, setting
from fedcof.summaries import Summary

S = TypeVar("S", bound=Summary)


@dataclass(frozen=True, kw_only=True)
class Shrunk(ClosedForm[S]):
    """A method with gamma on the diagonal of every class's covariance.

    Parameters
    ----------
    shrinkage : float or "auto", default 1.0
        gamma. "auto" chooses it from the summaries, as `fedcof.choosing` says.
    shrinkage_relative : float, default 0.0
        The same as a multiple of the mean variance of a feature within the classes, the trace of
        the covariance over d; above 0 it goes before `shrinkage`.
    """

    shrinkage: float | Auto = setting(
        1.0, "gamma, on the diagonal of every class's covariance; auto chooses it.", minimum=0
    )
    shrinkage_relative: float = setting(
        0.0, "The same as a multiple of the covariance's trace over d; 0: as shrinkage.", minimum=0
    )

    @property
    def gamma(self) -> float:
        """The shrinkage as a number.

        Raises
        ------
        TypeError
            If it is still to be chosen: see `tuned`.
        """
        if isinstance(self.shrinkage, str):
            raise TypeError("the shrinkage is chosen by Method.tuned, from what pool gave")
        return self.shrinkage

    def tuned(self, pooled: Any) -> Self:
        """Return the method with its shrinkage as a number, which is relative or chosen."""
        scatter = self.scatter_of(pooled)
        unit = scatter.mean_variance
        if self.shrinkage_relative and unit:
            return replace(self, shrinkage=self.shrinkage_relative * unit)
        return self.with_shrinkage(scatter)[0] if isinstance(self.shrinkage, str) else self

    def with_shrinkage(
        self, scatter: Scatter, within: NDArray[np.float64] | None = None
    ) -> tuple[Self, float]:
        """Return the method with the shrinkage for a scatter, and the accuracy expected of it.

        Parameters
        ----------
        scatter : Scatter
        within : ndarray of float64, shape (dim, dim), optional
            The covariance of the samples of a client's class, where it is known.

        Returns
        -------
        method : Shrunk
        accuracy : float
            From 0 to 1; 0 where no class has two means, so that it cannot be told.
        """
        unit, freedom = scatter.mean_variance, scatter.total - len(scatter.classes)
        if unit == 0:  # no spread to be relative to: any shrinkage gives much the same head
            shrinkage = float(np.square(scatter.class_means).mean()) or 1.0
            return replace(self, shrinkage=shrinkage, shrinkage_relative=0.0), 0.0
        given = self.shrinkage_relative
        if not isinstance(self.shrinkage, str):
            given = given or self.shrinkage / unit
        statistics = scatter.statistics
        if statistics is None or statistics.means_per_class.max() < 2:
            gram = scatter.gram(0.0, "both")
            ridge = ridge_by_evidence(gram, scatter.sums, scatter.class_counts)
            choice = Choice(given or ridge / freedom / unit, 0.0)
        else:
            held_out = HeldOutMeans.of(statistics, scatter.class_means)
            weights = scatter.class_weights[held_out.class_index]
            candidates = np.array([given]) if given else None
            if self.form == "lda":
                priors = class_priors(self.priors, scatter.classes, scatter.class_counts)
                choice = held_out.choose(
                    scatter.covariance(0.0),
                    unit,
                    weights / freedom,
                    log_priors=np.log(priors),
                    within=within,
                    candidates=candidates,
                )
            else:
                choice = held_out.choose(
                    self.regression(scatter),
                    unit * freedom,
                    weights,
                    within=within,
                    candidates=candidates,
                )
        relative = choice.relative
        method = replace(self, shrinkage=relative * unit, shrinkage_relative=relative)
        return method, choice.accuracy

    def regression(self, scatter: Scatter) -> NDArray[np.float64]:
        """Return G of the regression, without its shrinkage."""
        return scatter.gram(0.0)
