"""FedPFT: a classifier on features drawn from the clients' mixtures (Beitollahi et al., 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self, TypeVar

import numpy as np

from fedcof.heads import LinearHead
from fedcof.methods.base import Method, check_two_classes
from fedcof.methods.virtual_features import logistic_regression
from fedcof.settings import setting
from fedcof.summaries import Summary, merge
from fedcof.summaries.class_mixtures import (
    ClassDiagonalMixtures,
    ClassMixtures,
    ClassSphericalMixtures,
)

M = TypeVar("M", bound=ClassMixtures)


@dataclass(frozen=True)
class _FedPFT(Method[M]):
    """Logistic regression on features drawn from the mixture of every class at every client."""

    components: int = setting(
        1, "Gaussians that a client fits to a class at most.", minimum=1, client=True
    )
    samples_per_class: int = setting(500, "Virtual features drawn for a class.", minimum=1)
    max_iter: int = setting(30, "Iterations of L-BFGS.", minimum=1)
    seed: int = setting(0, "Seeds the draws.", minimum=0)

    @property
    def rows_per_class(self) -> int:
        """As many as there are components."""
        return self.components

    def seeded(self, seed: int) -> Self:
        """Return the method with its virtual features drawn from a seed."""
        return replace(self, seed=seed)

    def pool(self, parts: Sequence[M]) -> M:
        """Return all components."""
        return merge(parts)

    def fit(self, pooled: M) -> LinearHead:
        """Return the logistic regression on virtual features."""
        classes = np.unique(pooled.classes)
        check_two_classes(classes)
        rng = np.random.default_rng(self.seed)
        drawn = np.concatenate(
            [self._draw_components(pooled, rows, rng) for rows in _rows_by_class(pooled, classes)]
        )
        deviations = np.sqrt(pooled.covariances.astype(np.float64)).reshape(len(pooled.counts), -1)
        noise = rng.standard_normal((len(drawn), pooled.dim))
        features = pooled.means[drawn] + deviations[drawn] * noise
        class_index = np.repeat(np.arange(len(classes)), self.samples_per_class)
        return logistic_regression(
            features, class_index, classes, max_iter=self.max_iter, method=self.name
        )

    def _draw_components(self, pooled: M, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        counts = pooled.counts[rows]
        return rng.choice(rows, self.samples_per_class, p=counts / counts.sum())


def _rows_by_class(pooled: ClassMixtures, classes: np.ndarray) -> list[np.ndarray]:
    return [np.flatnonzero(pooled.classes == label) for label in classes]


@dataclass(frozen=True)
class FedPFTSpherical(_FedPFT[ClassSphericalMixtures]):
    """FedPFT with components of one variance each; see the settings of `FedPFTDiagonal`."""

    name: ClassVar[str] = "fedpft-spherical"
    summary_type: ClassVar[type[Summary]] = ClassSphericalMixtures


@dataclass(frozen=True)
class FedPFTDiagonal(_FedPFT[ClassDiagonalMixtures]):
    """FedPFT with components of a variance a dimension.

    Parameters
    ----------
    components : int, default 1
        Gaussians that a client fits to a class at most.
    samples_per_class : int, default 500
        How many virtual features are drawn for a class.
    max_iter : int, default 30
        Iterations of L-BFGS.
    seed : int, default 0
        Seeds the draws.

    Notes
    -----
    After "Parametric Feature Transfer: One-shot Federated Learning with Foundation Models", its
    baseline in Flower (one spherical Gaussian a class) and that in FedCGS's code (ten diagonal
    ones). Departures: their server draws as many features as the clients have samples, here every
    class has equally many; they train with SGD, here by L-BFGS as CCVR does; FedCGS's code leaves
    out classes with few samples, here they have fewer components; a component's weight is the share
    of the samples that are likeliest its own. The counts make it one array less to send.
    """

    name: ClassVar[str] = "fedpft-diagonal"
    summary_type: ClassVar[type[Summary]] = ClassDiagonalMixtures
