"""Methods that know a part of the scatter within the classes, and the trace of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcof.methods.closed_form import Form
from fedcof.methods.shrunk import Shrunk
from fedcof.scatter import Scatter
from fedcof.settings import Auto, setting
from fedcof.summaries import Summary

S = TypeVar("S", bound=Summary)

_RHOS = (0.0, 0.2, 0.5, 1.0)
_RELATIVES = 10.0 ** np.arange(-3, 1.01, 1 / 3)
"""What rho and the relative shrinkage are chosen from."""

_LONGEST = 1536
"""Of longer features nothing is chosen: it would take minutes."""


@dataclass(frozen=True, eq=False)
class SketchedScatter:
    """The scatter within the classes: what is known of it, and the trace of what is left.

    Parameters
    ----------
    classes : ndarray, shape (classes,)
        The labels in ascending order.
    class_counts : ndarray of int64, shape (classes,)
        N_c.
    class_means : ndarray of float64, shape (classes, dim)
        mu_c.
    known : ndarray of float64, shape (dim, dim)
        What is known of the scatter.
    left : float
        The trace of what is left.
    shape : ndarray of float64, shape (dim, dim)
        An estimate of the matrix that has this trace, scaled to a trace of 1.
    sphere : ndarray of float64, shape (dim, dim)
        The matrix that prefers no direction of those in which something may be left, of trace 1.
    """

    classes: NDArray[Any]
    class_counts: NDArray[np.int64]
    class_means: NDArray[np.float64]
    known: NDArray[np.float64]
    left: float
    shape: NDArray[np.float64]
    sphere: NDArray[np.float64]

    @property
    def sums(self) -> NDArray[np.float64]:
        """B, the sum of the features of every class, shape (classes, dim)."""
        return self.class_counts[:, None] * self.class_means

    def scatter(self, rho: float) -> Scatter:
        """Return the scatter, what is left in the shape ``(1 - rho) shape + rho sphere``."""
        rest = (1 - rho) * self.shape + rho * self.sphere
        within = self.known + self.left * rest
        return Scatter(self.classes, self.class_means, self.class_counts, within)


@dataclass(frozen=True, kw_only=True)
class Sketched(Shrunk[S]):
    """A method whose `pool` gives a `SketchedScatter`.

    Parameters
    ----------
    shrinkage : float or "auto", default "auto"
        gamma, added to the diagonal of every class's covariance.
    shrinkage_relative : float, default 0.0
        As in `Shrunk`.
    rho : float or "auto", default "auto"
        The share of what is left that is spread evenly over all directions; the other share has the
        estimated shape. "auto" chooses it together with the shrinkage, where the statistic tells
        one client from another; else it is 0.5, and the relative shrinkage 0.2. Of features of
        more than 1,536 numbers nothing is chosen: they are 0.2 and 0.03.
    form : {"regression", "lda"}, default "lda"
        The linear discriminant analysis, or the least-squares solution of FedCOF.
    priors : str, default "uniform"
        As in `ClosedForm`. Rows of length 1, as FedCOF has them, favour no class either.
    """

    shrinkage: float | Auto = setting(
        "auto", "gamma, on the diagonal of every class's covariance; auto chooses it.", minimum=0
    )
    rho: float | Auto = setting(
        "auto",
        "Share of the unknown scatter that is spread evenly; auto chooses it.",
        minimum=0,
        maximum=1,
    )
    form: Form = setting("lda", "lda, whose scores are log posteriors, or the paper's regression.")
    priors: str = setting(
        "uniform",
        "How frequent the classes are, for the form lda: counts, uniform, or CLASS=SHARE,...",
    )

    def scatter_of(self, pooled: SketchedScatter) -> Scatter:
        """Return the scatter within the classes."""
        if isinstance(self.rho, str):
            raise TypeError("rho is chosen by Method.tuned, from what pool gave")
        return pooled.scatter(self.rho)

    def tuned(self, pooled: SketchedScatter) -> Self:
        """Return the method with its shrinkage and rho as numbers."""
        unit = pooled.scatter(1.0).mean_variance  # the same for every rho
        if unit == 0 and isinstance(self.rho, str):
            return replace(self, rho=self.assumed(len(pooled.shape))[0]).tuned(pooled)
        if unit == 0 or not (isinstance(self.rho, str) or isinstance(self.shrinkage, str)):
            return super().tuned(pooled)
        rhos = _RHOS if isinstance(self.rho, str) else (self.rho,)
        relatives = _RELATIVES
        if self.shrinkage_relative:
            relatives = np.array([self.shrinkage_relative])
        elif not isinstance(self.shrinkage, str):
            relatives = np.array([self.shrinkage / unit])
        if len(rhos) == len(relatives) == 1:
            return self.with_relative(float(relatives[0]), unit)
        too_long = len(pooled.shape) > _LONGEST
        found = None if too_long else self.accuracies(pooled, rhos, relatives)
        if found is None:
            assumed_rho, assumed_relative = self.assumed(len(pooled.shape))
            rho = assumed_rho if len(rhos) > 1 else rhos[0]
            relative = assumed_relative if len(relatives) > 1 else float(relatives[0])
        else:
            place, column = np.unravel_index(np.argmax(found), found.shape)
            rho, relative = rhos[place], float(relatives[column])
        return replace(self, rho=rho).with_relative(relative, unit)

    def assumed(self, dim: int) -> tuple[float, float]:
        """Return rho and the relative shrinkage where nothing tells one from another.

        Long features are lifted ones, and those are planned only where the clients' means and
        vectors let the server know most of the covariance: little shrinkage is needed.
        """
        return (0.2, 0.03) if dim > _LONGEST else (0.5, 0.2)

    def accuracies(
        self, pooled: Any, rhos: Sequence[float], relatives: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """Return the accuracy to be expected, shape (rhos, relatives); None: it cannot be told."""
        return None

    def gram(self, pooled: SketchedScatter) -> NDArray[np.float64]:
        """Return G of eq. classifier-init."""
        return self.scatter_of(pooled).gram(self.gamma)

    def covariance(self, scatter: Scatter) -> NDArray[np.float64]:
        """Return the covariance within the classes with its shrinkage."""
        return scatter.covariance(self.gamma)
