"""Heads that are trained on features drawn at the server: virtual ones, which nobody has."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fedcof.heads import LinearHead, Provenance
from fedcof.summaries import ClassDistribution


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


def logistic_regression(
    features: NDArray[np.floating[Any]],
    class_index: NDArray[np.integer[Any]],
    classes: NDArray[Any],
    *,
    max_iter: int,
    method: str,
) -> LinearHead:
    """Return the head of a multinomial logistic regression.

    Parameters
    ----------
    features : ndarray of float, shape (n, dim)
        Brought to a deviation of 1 in all, and to float32, before the regression.
    class_index : ndarray of int, shape (n,)
        The class of every feature; none of `classes` is without.
    classes : ndarray, shape (classes,)
        The labels in ascending order.
    max_iter : int
        Iterations of L-BFGS; they need not converge.
    method : str
        Its name, for the head's provenance.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    scale = features.std() or 1.0
    classifier = LogisticRegression(max_iter=max_iter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit((features / scale).astype(np.float32), class_index)
    weight, bias = classifier.coef_ / scale, classifier.intercept_
    if len(classes) == 2:  # scikit-learn keeps one row then: the log odds of the second class
        weight, bias = np.vstack([-weight, weight]) / 2, np.hstack([-bias, bias]) / 2
    iterations = int(classifier.n_iter_.max())
    return LinearHead(
        weight, classes, bias, Provenance(method, iterations=iterations), probabilistic=True
    )
