"""The linear head and its closed-form solution."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.special import log_softmax, softmax

from fedcof.errors import HeadError, SettingError, SingularScatterWarning
from fedcof.files import write_atomically
from fedcof.labels import as_labels
from fedcof.numerics import rounding
from fedcof.rejection import Rejection
from fedcof.transforms import NO_TRANSFORM, Transform, parse
from fedcof.wire import decode, encode


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
    try:
        factor, lower = linalg.cho_factor(matrix, lower=True)
    except linalg.LinAlgError:
        return _minimum_norm(matrix, rows, smallest)
    norm = float(np.abs(matrix).sum(axis=0).max())
    reciprocal_condition, _ = linalg.lapack.dpocon(factor, norm, uplo="L")
    if reciprocal_condition < smallest:
        return _minimum_norm(matrix, rows, smallest)
    return np.asarray(linalg.cho_solve((factor, lower), rows.T).T)


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


@dataclass(frozen=True)
class Provenance:
    """Where a head comes from.

    Parameters
    ----------
    method : str
        The method's name.
    hyperparameters : mapping of str to number or str
        Its settings, as numbers where they were chosen.
    automatic : sequence of str
        The names of those that were chosen from the summaries.
    clients, samples : int
        How many there were.
    formula_bytes : int
        What the clients sent, by the paper's formulas.
    iterations : int
        What the solver took; 0 for a closed form.
    origin : mapping of str to str
        What made the features, as the clients' summaries say it: fingerprints by name.
    sending : mapping
        How the clients made what they sent, the settings of `fedcof.client.Sender`; empty where the
        server was not told.
    """

    method: str
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    clients: int = 0
    samples: int = 0
    formula_bytes: int = 0
    iterations: int = 0
    origin: Mapping[str, str] = field(default_factory=dict)
    sending: Mapping[str, Any] = field(default_factory=dict)
    automatic: Sequence[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class LinearHead:
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
        try:
            self.transform.input_dim(self.weight.shape[1])
        except SettingError as error:
            raise HeadError(str(error)) from None

    @property
    def dim(self) -> int:
        """The length of a feature, d, before it is transformed."""
        return self.transform.input_dim(self.weight.shape[1])

    @property
    def of_transformed(self) -> LinearHead:
        """The same head for features that are transformed already."""
        return replace(self, transform=NO_TRANSFORM)

    def with_provenance(self, **changes: Any) -> LinearHead:
        """Return the head with some fields of its provenance changed."""
        return replace(self, provenance=replace(self.provenance or Provenance(""), **changes))

    def decision_function(self, features: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the score of every class, shape (n, classes), for features of shape (n, dim).

        Raises
        ------
        HeadError
            If the features have another length, or hold NaN or infinity.
        """
        array = np.asarray(features)
        if array.ndim != 2 or array.shape[1] != self.dim:
            raise HeadError(f"features of shape {array.shape}, this head takes (n, {self.dim})")
        scores = np.asarray(self.transform(array) @ self.weight.T)
        if not np.isfinite(scores).all():
            row = np.flatnonzero(~np.isfinite(scores).all(axis=1))[0]
            raise HeadError(f"features hold NaN or infinity, first in row {row}; leave it out")
        return scores if self.bias is None else scores + self.bias

    def predict(self, features: ArrayLike) -> NDArray[Any]:
        """Return the label of the highest score for features of shape (n, dim)."""
        return np.asarray(self.classes[self.decision_function(features).argmax(axis=1)])

    def predict_proba(self, features: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the probability of every class, shape (n, classes), the softmax of the scores.

        Raises
        ------
        HeadError
            If the scores of this head are no log odds; see `probabilistic`.
        """
        self._check_probabilistic()
        return np.asarray(softmax(self.decision_function(features), axis=1))

    def predict_log_proba(self, features: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the logarithm of `predict_proba`; it does not underflow."""
        self._check_probabilistic()
        return np.asarray(log_softmax(self.decision_function(features), axis=1))

    def _check_probabilistic(self) -> None:
        if not self.probabilistic:
            raise HeadError(
                "the scores of this head have an order and no scale, so they give no "
                "probabilities; one of the form lda, of ccvr, or one that was trained further does"
            )

    def is_unknown(self, features: ArrayLike, share: float) -> NDArray[np.bool_]:
        """Return whether each sample is less familiar than all but a share of the known are.

        Parameters
        ----------
        features : array_like of float, shape (n, dim)
        share : float
            Of the samples of known classes, how many may be rejected; see `Rejection.threshold`.

        Raises
        ------
        HeadError
            If this head cannot tell, or the share is not between 0 and 1.
        """
        rejection = self.rejecting()
        familiarity = rejection.familiarity(self.decision_function(features))
        return np.asarray(familiarity < rejection.threshold(share))

    def rejecting(self) -> Rejection:
        """Return what tells samples of unknown classes.

        Raises
        ------
        HeadError
            If the head has none.
        """
        if self.rejection is None:
            raise HeadError(
                "this head cannot tell samples of unknown classes; one of the form lda can "
                "(fedcof solve --form lda)"
            )
        return self.rejection

    def score(self, features: ArrayLike, labels: ArrayLike) -> float:
        """Return the accuracy, a number from 0 to 1.

        Raises
        ------
        HeadError
            If there is no sample, or the labels are of another length or type than predicted.
        """
        predicted, truth = self.predict(features), as_labels(labels)
        if len(truth) != len(predicted) or len(truth) == 0:
            raise HeadError(f"{len(truth)} labels for {len(predicted)} features")
        if isinstance(truth[0], str) != isinstance(predicted[0], str):
            raise HeadError(
                f"labels of type {truth.dtype}, but the classes of this head are "
                f"{self.classes.dtype}"
            )
        return float(np.mean(predicted == truth))

    def to_bytes(self) -> bytes:
        """Return the head as a safetensors file that `load` reads."""
        arrays = {"weight": self.weight}
        if self.bias is not None:
            arrays["bias"] = self.bias
        if self.rejection is not None:
            arrays |= {_REJECTION + name: array for name, array in self.rejection.arrays().items()}
        metadata: dict[str, Any] = {"kind": _KIND, "classes": self.classes.tolist()}
        if self.probabilistic:
            metadata["probabilistic"] = True
        if self.transform != NO_TRANSFORM:
            metadata["transform"] = str(self.transform)
        if self.provenance is not None:
            metadata["provenance"] = asdict(self.provenance)
        return encode(arrays, metadata)

    def save(self, path: str | Path) -> None:
        """Write the head to a file that `load` reads."""
        write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> LinearHead:
        """Read a head that `save` wrote.

        Raises
        ------
        HeadError
            If the file is truncated, corrupt or not a head.
        FileNotFoundError
            If there is no such file.
        """
        path = Path(path)
        if path.is_dir():
            raise HeadError(f"{path} is a folder; give the file of the head in it")
        try:
            arrays, metadata = decode(path.read_bytes())
            if (kind := metadata.get("kind")) != _KIND:
                raise HeadError(f"not a head of fedcof but {kind!r}")
            provenance = metadata.get("provenance")
            if provenance and "bytes" in provenance:  # as version 0.1.0 called it
                provenance["formula_bytes"] = provenance.pop("bytes")
            rejection = {
                name.removeprefix(_REJECTION): arrays.pop(name)
                for name in list(arrays)
                if name.startswith(_REJECTION)
            }
            return cls(
                rejection=Rejection(**rejection) if rejection else None,
                classes=np.asarray(metadata["classes"]),
                provenance=Provenance(**provenance) if provenance else None,
                probabilistic=bool(metadata.get("probabilistic", False)),
                transform=parse(str(metadata.get("transform", NO_TRANSFORM))),
                **arrays,
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise HeadError(
                f"{path} is not a whole head: {error}; give the file that `fedcof solve`, "
                "`fedcof train` or LinearHead.save wrote"
            ) from None


_KIND = "head-1"
_REJECTION = "rejection-"
_RANK = 1e-8
"""Of the largest variance of equalised features: directions with less count as constant."""
