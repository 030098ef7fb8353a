"""Whether a sample is of none of the classes of a head, told by its scores alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from fedcof.errors import HeadError

_RANK = 1e-10
"""Directions with less of the largest spread of the class means are rounding."""
_DRAWS = 4000


@dataclass(frozen=True, eq=False)
class Rejection:
    """What the scores of a linear discriminant analysis say of samples of unknown classes.

    A sample is familiar as far as its nearest class explains it better than all samples together
    do, taken for one Gaussian: the relative Mahalanobis distance (Ren et al., 2021). All
    directions in which classes do not differ cancel, so what is left are the scores.

    Parameters
    ----------
    class_means : ndarray of float64, shape (classes, rank)
        Less their mean by the priors, in coordinates in which the covariance within the classes is
        the identity and the means' own scatter is diagonal.
    log_priors : ndarray of float64, shape (classes,)
    temperature : ndarray of float64, shape ()
        What the scores were divided by.

    Raises
    ------
    HeadError
        If the shapes do not fit, or a number is not finite.
    """

    class_means: NDArray[np.float64]
    log_priors: NDArray[np.float64]
    temperature: NDArray[np.float64]

    def __post_init__(self) -> None:
        shapes = [array.shape for array in self.arrays().values()]
        if self.class_means.ndim != 2 or shapes[1:] != [(len(self.class_means),), ()]:
            raise HeadError(f"what tells unknown classes has arrays of shapes {shapes}")
        if not all(np.isfinite(array).all() for array in self.arrays().values()):
            raise HeadError("what tells unknown classes holds NaN or infinity")

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the fields by name."""
        return vars(self).copy()

    @classmethod
    def of(
        cls,
        weight: NDArray[np.float64],
        class_means: NDArray[np.float64],
        priors: NDArray[np.float64],
        temperature: float = 1.0,
    ) -> Rejection:
        """Return that of a head.

        Parameters
        ----------
        weight : ndarray of float64, shape (classes, dim)
            As `fedcof.heads.solve_discriminant` returns it.
        class_means : ndarray of float64, shape (classes, dim)
        priors : ndarray of float64, shape (classes,)
        temperature : float, default 1.0
        """
        products = weight @ (class_means - priors @ class_means).T  # of the whitened means
        values, vectors = linalg.eigh((products + products.T) / 2)
        kept = values > _RANK * max(values[-1], np.finfo(np.float64).tiny)
        whitened = vectors[:, kept] * np.sqrt(values[kept])
        return cls(whitened, np.log(priors), np.asarray(temperature, np.float64))

    def familiarity(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return the log likelihood of the nearest class less that of all samples, shape (n,).

        Parameters
        ----------
        scores : array_like of float, shape (n, classes)
            As the head's `decision_function` returns them.
        """
        lengths = (self.class_means**2).sum(axis=1)
        products = np.asarray(scores) * self.temperature + lengths / 2 - self.log_priors
        products -= products @ np.exp(self.log_priors)[:, None]  # 0 but for a common constant
        whitened = products @ self.class_means / (self.class_means**2).sum(axis=0)
        return self._familiarity(whitened)

    def _familiarity(self, whitened: NDArray[np.float64]) -> NDArray[np.float64]:
        distances = (
            (whitened**2).sum(axis=1)[:, None]
            - 2 * whitened @ self.class_means.T
            + (self.class_means**2).sum(axis=1)
        )
        weighted = self.class_means * np.exp(self.log_priors)[:, None]
        everything = np.eye(whitened.shape[1]) + self.class_means.T @ weighted
        factor, lower = linalg.cho_factor(everything, lower=True)
        background = (whitened.T * linalg.cho_solve((factor, lower), whitened.T)).sum(axis=0)
        return np.asarray((background - distances.min(axis=1)) / 2 + np.log(np.diag(factor)).sum())

    def threshold(self, share: float) -> float:
        """Return the familiarity below which a share of the samples of known classes is expected.

        By draws from the Gaussians of the classes; the same every time.

        Raises
        ------
        HeadError
            If the share is not between 0 and 1.
        """
        if not 0 < share < 1:
            raise HeadError(f"the share of samples to reject must be between 0 and 1, not {share}")
        rng = np.random.default_rng(0)
        classes = rng.choice(len(self.log_priors), size=_DRAWS, p=np.exp(self.log_priors))
        drawn = self.class_means[classes]
        drawn = drawn + rng.standard_normal(drawn.shape)
        return float(np.quantile(self._familiarity(drawn), share))
