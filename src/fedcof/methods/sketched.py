"""Methods that know a part of the scatter within the classes, and the trace of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcof.methods.closed_form import ClosedForm, Form
from fedcof.scatter import Scatter
from fedcof.settings import setting
from fedcof.summaries import Summary

S = TypeVar("S", bound=Summary)


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
class Sketched(ClosedForm[S]):
    """A method whose `pool` gives a `SketchedScatter`.

    Parameters
    ----------
    shrinkage_relative : float, default 0.2
        What is added to the diagonal of the covariance, as a multiple of its trace over d.
    rho : float, default 0.5
        The share of what is left that is spread evenly over all directions; the other share has the
        estimated shape.
    form : {"regression", "lda"}, default "lda"
        The linear discriminant analysis, or the least-squares solution of FedCOF.
    priors : str, default "uniform"
        As in `ClosedForm`. Rows of length 1, as FedCOF has them, favour no class either.
    """

    shrinkage_relative: float = setting(
        0.2, "Added to the diagonal of the covariance, of its trace over d.", minimum=0
    )
    rho: float = setting(
        0.5, "Share of the unknown scatter that is spread evenly.", minimum=0, maximum=1
    )
    form: Form = setting("lda", "lda, whose scores are log posteriors, or the paper's regression.")
    priors: str = setting(
        "uniform",
        "How frequent the classes are, for the form lda: counts, uniform, or CLASS=SHARE,...",
    )

    def scatter_of(self, pooled: SketchedScatter) -> Scatter:
        """Return the scatter within the classes."""
        return pooled.scatter(self.rho)

    def gram(self, pooled: SketchedScatter) -> NDArray[np.float64]:
        """Return G of eq. classifier-init."""
        scatter = self.scatter_of(pooled)
        return scatter.gram(self.shrinkage_relative * scatter.mean_variance)

    def covariance(self, scatter: Scatter) -> NDArray[np.float64]:
        """Return the covariance within the classes with its shrinkage."""
        return scatter.covariance(self.shrinkage_relative * scatter.mean_variance)
