"""Methods with a shrinkage: in the paper's unit, relative to the variance, or chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcof.choosing import HeldOutMeans, ridge_by_evidence
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
            return self.with_relative(self.shrinkage_relative, unit)
        return self.choose(scatter) if isinstance(self.shrinkage, str) else self

    def choose(self, scatter: Scatter) -> Self:
        """Return the method with the shrinkage chosen for a scatter."""
        unit, freedom = scatter.mean_variance, scatter.total - len(scatter.classes)
        if unit == 0:  # no spread to be relative to: any shrinkage gives much the same head
            shrinkage = float(np.square(scatter.class_means).mean()) or 1.0
            return replace(self, shrinkage=shrinkage)
        statistics = scatter.statistics
        if statistics is None or statistics.means_per_class.max() < 2:
            gram = scatter.gram(0.0, "both")
            ridge = ridge_by_evidence(gram, scatter.sums, scatter.class_counts)
            return self.with_relative(ridge / freedom / unit, unit)
        held_out = HeldOutMeans.of(statistics, scatter.class_means)
        weights = scatter.class_weights[held_out.class_index]
        if self.form == "lda":
            log_priors = self.log_priors(scatter)
            covariance = scatter.covariance(0.0)
            choice = held_out.choose(covariance, unit, weights / freedom, log_priors=log_priors)
        else:
            choice = held_out.choose(self.regression(scatter), unit * freedom, weights)
        return self.with_relative(choice.relative, unit)

    def with_relative(self, relative: float, unit: float) -> Self:
        """Return the method with a relative shrinkage, and what that is in numbers."""
        return replace(self, shrinkage=relative * unit, shrinkage_relative=relative)

    def log_priors(self, scatter: Scatter) -> NDArray[np.float64]:
        """Return the logarithms of the priors of the form lda."""
        return np.log(class_priors(self.priors, scatter.classes, scatter.class_counts))

    def regression(self, scatter: Scatter) -> NDArray[np.float64]:
        """Return G of the regression, without its shrinkage."""
        return scatter.gram(0.0)
