"""The linear head and its closed-form solutions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fedcof.algebra import current
from fedcof.errors import HeadError, SingularScatterWarning
from fedcof.heads.base import Head, Provenance, needs
from fedcof.numerics import rounding
from fedcof.rejection import Rejection
from fedcof.transforms import NO_TRANSFORM, Transform


def solve_head(gram: NDArray[np.float64], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the normalised rows of ``W = G^-1 B`` (eq. sol-ridge, classifier-init).

    Parameters
    ----------
    gram : ndarray of float64, shape (dim, dim)
        G with its regulariser, symmetric.
    sums : ndarray of float64, shape (classes, dim)
        B, the sum of the features of every class.

    Returns
    -------
    ndarray of float64, shape (classes, dim)
        By Cholesky. If G is not positive definite, or its condition number exceeds what float64
        resolves, the minimum-norm solution by eigendecomposition.

    Warns
    -----
    SingularScatterWarning
        If the minimum-norm solution was taken.
    """
    return normalize_rows(_solve_definite(gram, sums, rounding(1.0, len(gram))))


def least_squares(gram: NDArray[np.float64], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``W = G^-1 B`` as `solve_head` does, with rows of any length."""
    return _solve_definite(gram, sums, rounding(1.0, len(gram)))


def solve_discriminant(
    class_means: NDArray[np.float64],
    covariance: NDArray[np.float64],
    priors: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weight and bias of the linear discriminant analysis: scores are log posteriors.

    Of Gaussian classes with one covariance ``Sigma``, up to a constant that all classes share::

        log P(c | x) = (mu_c - m)^T Sigma^-1 (x - m) - |mu_c - m|^2_Sigma / 2 + log prior_c

    where m is the mean of the class means by the priors, and ``|v|^2_Sigma = v^T Sigma^-1 v``.

    Parameters
    ----------
    class_means : ndarray of float64, shape (classes, dim)
        mu_c.
    covariance : ndarray of float64, shape (dim, dim)
        Sigma, that within the classes, with its shrinkage.
    priors : ndarray of float64, shape (classes,)
        Positive; they sum to 1.

    Returns
    -------
    weight : ndarray of float64, shape (classes, dim)
    bias : ndarray of float64, shape (classes,)

    Warns
    -----
    SingularScatterWarning
        If the features have directions without any spread within the classes: they count for
        nothing.

    Notes
    -----
    Features are brought to a deviation of 1 within the classes first, so the solution does not
    depend on their units. Directions in which the variance is then below 1e-8 of the largest are
    left out, as by scikit-learn's solver "svd", whose ``tol`` of 1e-4 is that of deviations.
    """
    centre = priors @ class_means
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    constant = deviations <= rounding(1.0, 1) * np.abs(class_means).max(axis=0)
    units = np.where(constant, np.inf, deviations)
    offsets = class_means - centre
    weight = _solve_definite(covariance / units / units[:, None], offsets / units, _RANK) / units
    bias = np.log(priors) - np.einsum("cd,cd->c", weight, offsets) / 2 - weight @ centre
    return weight, bias


def _solve_definite(
    matrix: NDArray[np.float64], rows: NDArray[np.float64], smallest: float
) -> NDArray[np.float64]:
    """Return ``rows @ matrix^-1``; the minimum-norm solution if the matrix is near singular.

    It is where its smallest eigenvalue may be below `smallest` times its largest.
    """
    solved = current().solve_definite(matrix, rows, smallest)
    return _minimum_norm(matrix, rows, smallest) if solved is None else solved


def _minimum_norm(
    matrix: NDArray[np.float64], rows: NDArray[np.float64], smallest: float
) -> NDArray[np.float64]:
    values, vectors = linalg.eigh(matrix)
    kept = values > smallest * values[-1]
    warnings.warn(
        f"the scatter matrix has rank {kept.sum()} of {len(values)}: the minimum-norm solution is "
        "taken; more shrinkage, or more means per client, would make it definite",
        SingularScatterWarning,
        stacklevel=6,  # the caller of Method.solve
    )
    basis = vectors[:, kept]
    return np.asarray((rows @ basis / values[kept]) @ basis.T)


def normalize_rows(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rows at length 1, so that large classes do not win by size (algorithm 1).

    A row of zeros stays.
    """
    norms = np.linalg.norm(weight, axis=1, keepdims=True)
    return weight / np.where(norms > 0, norms, 1.0)


@dataclass(frozen=True, eq=False)
class LinearHead(Head):
    """A linear classifier over the features of a frozen backbone, transformed perhaps.

    Parameters
    ----------
    weight : ndarray of float, shape (classes, transform.output_dim(dim))
        One row a class.
    classes : ndarray of int or str, shape (classes,)
        The labels in ascending order.
    bias : ndarray of float, shape (classes,), optional
        None for the methods that have none.
    provenance : Provenance, optional
        Where the head comes from.
    probabilistic : bool, default False
        Whether the softmax of the scores are probabilities, as after a logistic regression or a
        linear discriminant analysis. The scores of a least-squares solution with rows of length 1
        have an order and no scale.
    transform : Transform, default NO_TRANSFORM
        What is done to features before they meet the weight; the head takes them without it.
    rejection : Rejection, optional
        What tells samples of unknown classes; a linear discriminant analysis has it.

    Raises
    ------
    HeadError
        If the shapes do not fit, there is no class, or a number is not finite.
    """

    kind: ClassVar[str] = "head-1"
    shape: ClassVar[str] = "linear"

    weight: NDArray[np.floating[Any]]
    classes: NDArray[Any]
    bias: NDArray[np.floating[Any]] | None = None
    provenance: Provenance | None = None
    probabilistic: bool = False
    transform: Transform = NO_TRANSFORM
    rejection: Rejection | None = None

    def __post_init__(self) -> None:
        if self.weight.ndim != 2 or len(self.weight) != len(self.classes) or not self.weight.size:
            raise HeadError(
                f"a weight of shape {self.weight.shape} for {len(self.classes)} classes; expected "
                "(classes, dim)"
            )
        if self.bias is not None and self.bias.shape != (len(self.classes),):
            raise HeadError(f"a bias of shape {self.bias.shape} for {len(self.classes)} classes")
        if not all(np.isfinite(a).all() for a in (self.weight, self.bias) if a is not None):
            raise HeadError("the weight or the bias holds NaN or infinity")
        self._check_transform()

    @property
    def transformed_dim(self) -> int:
        """The length of a feature after it is transformed."""
        return int(self.weight.shape[1])

    @property
    def slopes(self) -> NDArray[np.floating[Any]]:
        """The weight: scores grow alike everywhere."""
        return self.weight

    def _scores(self, transformed: NDArray[Any]) -> NDArray[np.floating[Any]]:
        scores = np.asarray(transformed @ self.weight.T)
        return scores if self.bias is None else scores + self.bias

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"weight": self.weight}
        if self.bias is not None:
            arrays["bias"] = self.bias
        if self.rejection is not None:
            arrays |= {_REJECTION + name: array for name, array in self.rejection.arrays().items()}
        return arrays

    @classmethod
    def _of_arrays(cls, arrays: dict[str, Any], **known: Any) -> Self:
        rejection = {
            name.removeprefix(_REJECTION): arrays.pop(name)
            for name in list(arrays)
            if name.startswith(_REJECTION)
        }
        known["rejection"] = Rejection(**rejection) if rejection else None
        return cls(**arrays, **known)


def linear(head: Head) -> LinearHead:
    """Return a head that must be linear.

    Raises
    ------
    HeadError
        If it is of another kind.
    """
    if not isinstance(head, LinearHead):
        raise HeadError(f"this is a {head.shape} head, but {needs(LinearHead)}")
    return head


_REJECTION = "rejection-"
_RANK = 1e-8
"""Of the largest variance of equalised features: directions with less count as constant."""
