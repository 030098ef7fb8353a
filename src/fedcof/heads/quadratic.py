"""The quadratic head: Gaussian classes, each with a covariance of its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fedcof.errors import HeadError, SingularScatterWarning
from fedcof.heads.base import Head, Provenance
from fedcof.numerics import rounding
from fedcof.transforms import NO_TRANSFORM, Transform

_ROWS = 4096
"""Samples that are scored at a time."""
_RANK = 1e-8
"""Of the largest variance of equalised features: directions with less count as constant."""


@dataclass(frozen=True, eq=False)
class QuadraticHead(Head):
    """A quadratic discriminant analysis: scores are log posteriors, up to a constant.

    Parameters
    ----------
    means : ndarray of float, shape (classes, transform.output_dim(dim))
        mu_c.
    factors : ndarray of float, shape (classes, transform.output_dim(dim), rank)
        F_c, so that ``|(x - mu_c) F_c|^2`` is the squared Mahalanobis distance from the class. They
        are all of the head's memory, and travel in float32: of 100 classes and 512 features they
        take 105 MB in a file, where the weight of a linear head takes 0.2 MB.
    bias : ndarray of float, shape (classes,)
        The log prior less half the log determinant of the class's covariance.
    classes : ndarray of int or str, shape (classes,)
        The labels in ascending order.
    provenance : Provenance, optional
        Where the head comes from.
    transform : Transform, default NO_TRANSFORM
        What is done to features first; the head takes them without it.

    Raises
    ------
    HeadError
        If the shapes do not fit, there is no class, or a number is not finite.
    """

    kind: ClassVar[str] = "head-quadratic-1"
    shape: ClassVar[str] = "quadratic"
    probabilistic = True
    rejection = None

    means: NDArray[np.floating[Any]]
    factors: NDArray[np.floating[Any]]
    bias: NDArray[np.floating[Any]]
    classes: NDArray[Any]
    provenance: Provenance | None = None
    transform: Transform = NO_TRANSFORM

    def __post_init__(self) -> None:
        classes = len(self.classes)
        fits = (
            self.means.ndim == 2
            and self.means.size > 0
            and len(self.means) == classes
            and self.factors.ndim == 3
            and self.factors.shape[:2] == self.means.shape
            and self.bias.shape == (classes,)
        )
        if not fits:
            raise HeadError(
                f"means of shape {self.means.shape}, factors of {self.factors.shape} and a bias of "
                f"{self.bias.shape} for {classes} classes; expected (classes, dim), (classes, dim, "
                "rank) and (classes,)"
            )
        if not all(np.isfinite(array).all() for array in (self.means, self.factors, self.bias)):
            raise HeadError("the means, the factors or the bias hold NaN or infinity")
        self._check_transform()

    @property
    def transformed_dim(self) -> int:
        """The length of a feature after it is transformed."""
        return int(self.means.shape[1])

    @property
    def slopes(self) -> NDArray[np.floating[Any]]:
        """How scores grow with a transformed feature at the mean of the class means."""
        offsets = self.means - self.means.mean(axis=0)
        pairs = zip(offsets, self.factors, strict=True)
        return np.stack([factor @ (offset @ factor) for offset, factor in pairs])

    def _scores(self, transformed: NDArray[Any]) -> NDArray[np.floating[Any]]:
        scores = np.empty((len(transformed), len(self.classes)))
        for start in range(0, len(transformed), _ROWS):
            rows = transformed[start : start + _ROWS]
            for index, (mean, factor) in enumerate(zip(self.means, self.factors, strict=True)):
                whitened = (rows - mean).astype(factor.dtype, copy=False) @ factor
                distances = np.einsum("nd,nd->n", whitened, whitened)
                scores[start : start + _ROWS, index] = self.bias[index] - distances / 2
        return scores

    def _arrays(self) -> dict[str, NDArray[Any]]:
        factors = self.factors.astype(np.float32)
        return {"means": self.means, "factors": factors, "bias": self.bias}

    @classmethod
    def _of_arrays(cls, arrays: dict[str, Any], **known: Any) -> Self:
        known.pop("probabilistic")  # always
        return cls(**arrays, **known)


def whitening(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return V, shape (dim, rank), so that ``V^T covariance V`` is the identity.

    Features are brought to a deviation of 1 first. Directions in which the variance is then below
    1e-8 of the largest are left out, as by `fedcof.heads.solve_discriminant`.

    Warns
    -----
    SingularScatterWarning
        If a direction is left out: it counts for nothing.

    Examples
    --------
    >>> np.abs(whitening(np.diag([4.0, 1.0]))).sum(axis=1)
    array([0.5, 1. ])
    """
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    units = np.where(deviations > rounding(deviations.max(), len(deviations)), deviations, np.inf)
    values, vectors = linalg.eigh(covariance / units / units[:, None])
    kept = values > max(_RANK * values[-1], np.finfo(np.float64).tiny)
    if not kept.all():
        warnings.warn(
            f"the covariance within the classes has rank {kept.sum()} of {len(kept)}: features "
            "count for nothing in the other directions; a larger blend would make it definite",
            SingularScatterWarning,
            stacklevel=5,  # the caller of Method.solve
        )
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]) / units[:, None])


def solve_quadratic(
    classes: NDArray[Any],
    class_means: NDArray[np.float64],
    whitened: Iterable[NDArray[np.float64]],
    *,
    basis: NDArray[np.float64],
    pooled_shares: NDArray[np.float64],
    priors: NDArray[np.float64],
) -> QuadraticHead:
    """Return the quadratic discriminant analysis, with covariances drawn to the pooled one.

    In the coordinates in which the pooled covariance is the identity, that of a class is
    ``(1 - alpha_c) S_c + alpha_c I``.

    Parameters
    ----------
    classes : ndarray, shape (classes,)
    class_means : ndarray of float64, shape (classes, dim)
    whitened : iterable of ndarray of float64, each of shape (rank, rank)
        S_c of every class in turn, which need not be in memory together.
    basis : ndarray of float64, shape (dim, rank)
        As `whitening` returns it.
    pooled_shares : ndarray of float64, shape (classes,)
        alpha_c, from 0 to 1.
    priors : ndarray of float64, shape (classes,)
        Positive; they sum to 1.

    Raises
    ------
    HeadError
        If the covariance of a class is singular.
    """
    dim, rank = basis.shape
    factors = np.empty((len(classes), dim, rank))
    bias = np.log(priors)
    for index, (covariance, share) in enumerate(zip(whitened, pooled_shares, strict=True)):
        drawn = (1 - share) * covariance
        drawn.flat[:: rank + 1] += share
        try:
            root = linalg.cholesky(drawn, lower=True)
        except linalg.LinAlgError:
            raise HeadError(
                f"the covariance of class {classes[index].item()!r} is singular: it needs a share "
                "of the pooled one"
            ) from None
        factors[index] = linalg.solve_triangular(root, basis.T, lower=True).T
        bias[index] -= np.log(np.diag(root)).sum()
    return QuadraticHead(class_means, factors, bias, classes)
