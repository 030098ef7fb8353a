"""FisherMix: a linear head trained where the classes differ most (Turazza et al., 2026)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fedcof.heads import LinearHead
from fedcof.methods.base import check_two_classes
from fedcof.methods.gaussian_heads import GHLDA
from fedcof.methods.virtual_features import logistic_regression
from fedcof.numerics import rounding
from fedcof.settings import setting
from fedcof.summaries import Gram

_ENERGY, _MOST = 0.99, 128
"""The share of the classes' differences that the subspace holds, in so many dimensions at most."""
_SPREAD = 0.75
"""Virtual features are drawn with this share of the deviation within a class."""


@dataclass(frozen=True)
class FisherMix(GHLDA):
    """Logistic regression on virtual features in the Fisher subspace.

    With the covariance S within the classes and B between them, the subspace is that of the leading
    eigenvectors of ``S^-1/2 B S^-1/2``. There the classes are spheres, from which features are
    drawn; the head is brought back to the features as they are.

    Parameters
    ----------
    blend : float, default 0.05
        The share of the sphere in S.
    samples_per_class : int, default 500
        How many virtual features are drawn for a class.
    max_iter : int, default 30
        Iterations of L-BFGS.
    seed : int, default 0
        Seeds the draws.

    Notes
    -----
    After "The Gaussian-Head OFL Family" and its code, from what clients send for GH-LDA. Energy,
    dimensions and the deviation of the draws are the defaults of its code. Departures: 20,000 draws
    a class and 60 epochs of AdamW on cosines, with a margin that is 0 by default, are a logistic
    regression on 500 draws here; the classes' own covariances, which one of its configurations
    draws from, are not sent.
    """

    name: ClassVar[str] = "fishermix"

    samples_per_class: int = setting(500, "Virtual features drawn for a class.", minimum=1)
    max_iter: int = setting(30, "Iterations of L-BFGS.", minimum=1)
    seed: int = setting(0, "Seeds the draws.", minimum=0)

    def seeded(self, seed: int) -> Self:
        """Return the method with its virtual features drawn from a seed."""
        return replace(self, seed=seed)

    def fit(self, pooled: Gram) -> LinearHead:
        """Return the logistic regression, as a head of the features."""
        check_two_classes(pooled.classes)
        means = pooled.sums / pooled.counts[:, None]
        basis = fisher_subspace(means, pooled.counts / pooled.total, self.covariance(pooled))
        rng = np.random.default_rng(self.seed)
        class_index = np.repeat(np.arange(len(means)), self.samples_per_class)
        noise = rng.standard_normal((len(class_index), basis.shape[1]))
        head = logistic_regression(
            (means @ basis)[class_index] + _SPREAD * noise,
            class_index,
            pooled.classes,
            max_iter=self.max_iter,
            method=self.name,
        )
        return replace(head, weight=head.weight @ basis.T)


def fisher_subspace(
    class_means: NDArray[np.float64], priors: NDArray[np.float64], covariance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return V, shape (dim, k), so that ``x V`` has the unit covariance within a class.

    Its directions are those in which the class means differ most, in units of the deviation within
    a class. Directions without any spread within the classes are left out.
    """
    values, vectors = linalg.eigh(covariance)
    kept = values > rounding(values[-1], len(values))
    whitening = vectors[:, kept] / np.sqrt(values[kept])
    offsets = np.sqrt(priors)[:, None] * (class_means - priors @ class_means)
    _, sizes, directions = linalg.svd(offsets @ whitening, full_matrices=False)
    energy = np.cumsum(sizes**2) / max(float((sizes**2).sum()), np.finfo(float).tiny)
    enough = int(np.searchsorted(energy, _ENERGY)) + 1
    return np.asarray(whitening @ directions[: min(enough, _MOST)].T)
