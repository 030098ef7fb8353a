"""Gaussian classes, each with a covariance of its own, from what CCVR's clients send."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.special import multigammaln

from fedcof.errors import SummaryError
from fedcof.heads import QuadraticHead, solve_quadratic, whitening
from fedcof.methods.base import Method, check_two_classes, chosen
from fedcof.methods.closed_form import class_priors, parse_priors
from fedcof.methods.gaussian_heads import blended
from fedcof.methods.moments_in_turn import moments_in_turn
from fedcof.methods.passes import Pass, same
from fedcof.numerics import add_to_diagonal
from fedcof.settings import Auto, setting
from fedcof.summaries import ClassCovariances, Summary
from fedcof.summaries.class_moments import class_distributions

_LEAST, _MOST = 1e-2, 1e4
"""The pooled covariance counts for so many samples a feature, at least and at most."""


@dataclass(frozen=True)
class GHQDA(Method[ClassCovariances]):
    """A quadratic discriminant analysis whose covariances are drawn to the pooled one.

    Of a class of n samples, the pooled covariance has the share ``nu / (n - 1 + nu)``, or
    `pooled_share` if that is more.

    Parameters
    ----------
    blend : float, default 0.05
        The share of a sphere in every covariance, whose trace is that of the pooled one.
    pooled_share : float, default 0.9
        The least share of the pooled covariance; at 1, the head is a linear discriminant analysis.
    pooled_samples : float or "auto", default 0.0
        nu, for how many samples of a class the pooled covariance counts. "auto" takes the most
        likely number for Gaussian features; see `pooled_samples_by_evidence`.
    priors : str, default "counts"
        As of `ClosedForm`.

    Notes
    -----
    After GH-QDA of "The Gaussian-Head OFL Family" (Turazza et al., 2026), whose clients send second
    moments of the classes. Departures: clients send means and covariances, as for CCVR; nu is ours.
    A class of one sample has the pooled covariance.

    Features of a deep backbone have heavier tails than a Gaussian. So even a class of many samples
    needs a large share of the pooled covariance, and a likelihood asks for too little of it. Where
    features are nearly Gaussian, `pooled_share` 0 with `pooled_samples` "auto" is better.
    """

    name: ClassVar[str] = "gh-qda"
    summary_type: ClassVar[type[Summary]] = ClassCovariances

    blend: float = setting(
        0.05, "The share of the sphere in a covariance of the Gaussian heads.", minimum=0, maximum=1
    )
    pooled_share: float = setting(
        0.9, "The least share of the pooled covariance in a class's.", minimum=0, maximum=1
    )
    pooled_samples: float | Auto = setting(
        0.0,
        "For how many samples of a class the pooled covariance counts; auto: the most likely.",
        minimum=0,
    )
    priors: str = setting("counts", "How frequent the classes are: counts, uniform, or CLASS=SHARE")

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_priors(self.priors)

    def pool(self, parts: Sequence[ClassCovariances]) -> Sequence[ClassCovariances]:
        """Return the summaries; they are pooled class by class, one matrix in memory at a time."""
        return parts

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> Sequence[ClassCovariances]:
        """Return the moments of the samples."""
        return [self.summarize(features, labels)]

    def streamed(self) -> Pass[Any]:
        """Return a pass that counts; the moments of some classes are pooled in each that follows.

        They are kept, as large as the factors of the head.
        """
        return moments_in_turn(same, same)

    def tuned(self, pooled: Sequence[ClassCovariances]) -> Self:
        """Return the method with its number of pooled samples."""
        if not isinstance(self.pooled_samples, str):
            return self
        within = _Within.of(pooled, self.blend)
        spread = [
            linalg.eigvalsh(matrix)
            for matrix, count in zip(within.whitened(), within.counts, strict=True)
            if count > 1
        ]
        freedom = within.counts[within.counts > 1] - 1
        return replace(self, pooled_samples=pooled_samples_by_evidence(np.stack(spread), freedom))

    def fit(self, pooled: Sequence[ClassCovariances]) -> QuadraticHead:
        """Return the head; what is automatic is chosen."""
        method = self.tuned(pooled)
        assert not isinstance(method.pooled_samples, str)
        within = _Within.of(pooled, self.blend)
        freedom = within.counts - 1
        by_samples = method.pooled_samples / np.maximum(freedom + method.pooled_samples, 1e-300)
        shares = np.where(freedom > 0, np.maximum(by_samples, self.pooled_share), 1.0)
        head = solve_quadratic(
            within.classes,
            within.means,
            within.whitened(),
            basis=within.basis,
            pooled_shares=shares,
            priors=class_priors(self.priors, within.classes, within.counts),
        )
        return replace(head, provenance=chosen(self, method))


class _Within(NamedTuple):
    """The classes, and coordinates in which their pooled covariance is the identity.

    Parameters
    ----------
    parts : sequence of ClassCovariances
    classes : ndarray, shape (classes,)
    counts : ndarray of int64, shape (classes,)
    means : ndarray of float64, shape (classes, dim)
    basis : ndarray of float64, shape (dim, rank)
    blend, sphere : float
        The share of a sphere in every covariance, and what it adds to the diagonal.
    """

    parts: Sequence[ClassCovariances]
    classes: NDArray[np.generic]
    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    basis: NDArray[np.float64]
    blend: float
    sphere: float

    @classmethod
    def of(cls, parts: Sequence[ClassCovariances], blend: float) -> Self:
        """Pool the clients' moments.

        Raises
        ------
        SummaryError
            If there is one class in all, or no class has two samples.
        """
        labels, counts, means = [], [], []
        scatter = np.zeros((parts[0].dim, parts[0].dim))
        for label, samples, mean, covariance in class_distributions(parts):
            labels.append(label)
            counts.append(samples)
            means.append(mean)
            scatter += (samples - 1) * covariance
        classes, class_counts = np.array(labels), np.array(counts)
        check_two_classes(classes)
        freedom = int((class_counts - 1).sum())
        if freedom == 0:
            raise SummaryError("samples", "every class has one sample, so there is no spread")
        covariance = scatter / freedom
        return cls(
            parts,
            classes,
            class_counts,
            np.stack(means),
            whitening(blended(covariance, blend)),
            blend,
            float(blend * np.trace(covariance) / len(covariance)),
        )

    def whitened(self) -> Iterator[NDArray[np.float64]]:
        """Yield every class's covariance, with its share of the sphere, in these coordinates."""
        for distribution in class_distributions(self.parts):
            covariance = add_to_diagonal((1 - self.blend) * distribution.covariance, self.sphere)
            yield self.basis.T @ covariance @ self.basis


def pooled_samples_by_evidence(spread: NDArray[np.float64], freedom: NDArray[np.int64]) -> float:
    """Return the most likely number of samples for which the pooled covariance counts.

    A class's covariance has an inverse Wishart distribution about the pooled one, which is the
    identity here, and its scatter a Wishart distribution about that. With m degrees of freedom and
    the eigenvalues s of its covariance, the likelihood of nu is, but for a constant, ::

        (k d log nu - (k + m) sum log(nu + m s)) / 2 + log G((k + m) / 2) - log G(k / 2)

    where k = nu + d + 1, and G is the multivariate gamma function.

    Parameters
    ----------
    spread : ndarray of float64, shape (classes, dim)
        The eigenvalues of every class's covariance.
    freedom : ndarray of int64, shape (classes,)
        The samples of every class less one, 1 at least.

    Examples
    --------
    >>> nu = pooled_samples_by_evidence(np.array([[8.0, 0.1], [0.1, 8.0]]), np.array([50, 50]))
    >>> round(nu, 1)
    0.6
    """
    from scipy.optimize import minimize_scalar

    dim = spread.shape[1]
    freedom = freedom.astype(np.float64)
    scatter = freedom[:, None] * np.maximum(spread, 0.0)

    def surprise(log_samples: float) -> float:
        nu = float(np.exp(log_samples))
        k = nu + dim + 1
        gamma = multigammaln((k + freedom) / 2, dim) - multigammaln(k / 2, dim)
        determinants = (k + freedom) * np.log(nu + scatter).sum(axis=1)
        return -float((gamma + (k * dim * log_samples - determinants) / 2).sum())

    bounds = np.log(_LEAST * dim), np.log(_MOST * dim)
    return float(np.exp(minimize_scalar(surprise, bounds=bounds, method="bounded").x))
