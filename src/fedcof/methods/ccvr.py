"""CCVR as an initialisation: a classifier on virtual features (Luo et al., 2021)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from fedcof.heads import LinearHead, Provenance
from fedcof.methods.base import Method, check_two_classes
from fedcof.settings import setting
from fedcof.summaries import ClassCovariances, ClassDistribution, Summary, class_distributions


@dataclass(frozen=True)
class CCVR(Method[ClassCovariances]):
    """Logistic regression on features drawn from the Gaussian of every class.

    The clients' means and covariances are pooled by eq. cov_aggregate.

    Parameters
    ----------
    samples_per_class : int, default 500
        How many virtual features are drawn for a class.
    max_iter : int, default 30
        Iterations of L-BFGS; they need not converge, as the paper's epochs need not.
    seed : int, default 0
        Seeds the draws.
    """

    name: ClassVar[str] = "ccvr"
    summary_type: ClassVar[type[Summary]] = ClassCovariances

    samples_per_class: int = setting(500, "Virtual features drawn for a class.", minimum=1)
    max_iter: int = setting(30, "Iterations of L-BFGS.", minimum=1)
    seed: int = setting(0, "Seeds the draws.", minimum=0)

    def seeded(self, seed: int) -> Self:
        """Return the method with its virtual features drawn from a seed."""
        return replace(self, seed=seed)

    def pool(self, parts: Sequence[ClassCovariances]) -> Sequence[ClassCovariances]:
        """Return the summaries; `fit` pools them class by class and never holds all matrices."""
        return parts

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> Sequence[ClassCovariances]:
        """Return the moments of the samples."""
        return [self.summarize(features, labels)]

    def fit(self, pooled: Sequence[ClassCovariances]) -> LinearHead:
        """Return the logistic regression on virtual features."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        classes = np.unique(np.concatenate([part.classes for part in pooled]))
        check_two_classes(classes)
        rng = np.random.default_rng(self.seed)
        features = np.concatenate(
            [
                draw_features(distribution, self.samples_per_class, rng)
                for distribution in class_distributions(pooled)
            ]
        )
        class_index = np.repeat(np.arange(len(classes)), self.samples_per_class)
        scale = features.std() or 1.0
        classifier = LogisticRegression(max_iter=self.max_iter)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            classifier.fit((features / scale).astype(np.float32), class_index)
        weight, bias = classifier.coef_ / scale, classifier.intercept_
        if len(classes) == 2:  # scikit-learn keeps one row then: the log odds of the second class
            weight, bias = np.vstack([-weight, weight]) / 2, np.hstack([-bias, bias]) / 2
        iterations = int(classifier.n_iter_.max())
        provenance = Provenance(self.name, iterations=iterations)
        return LinearHead(weight, classes, bias, provenance, probabilistic=True)


def draw_features(
    distribution: ClassDistribution, samples: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return Gaussian features, shape (samples, dim).

    By the symmetric root: unlike eigenvectors, it does not turn with the last bits. Eigenvalues
    below zero, of rounded covariances, count as zero.
    """
    values, vectors = linalg.eigh(distribution.covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    noise = rng.standard_normal((samples, len(values)))
    return np.asarray(distribution.mean + noise @ root)
