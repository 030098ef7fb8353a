"""CCVR as an initialisation: a classifier on virtual features (Luo et al., 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.heads import LinearHead
from fedcof.methods.base import Method, check_two_classes
from fedcof.methods.moments_in_turn import moments_in_turn
from fedcof.methods.passes import Pass
from fedcof.methods.virtual_features import draw_features, logistic_regression
from fedcof.settings import setting
from fedcof.summaries import ClassCovariances, Summary, class_distributions


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

    def streamed(self) -> Pass[Any]:
        """Return a pass that counts; features are drawn for some classes in each that follows."""
        draw = partial(self._draw, np.random.default_rng(self.seed))
        return moments_in_turn(draw, VirtualFeatures.together)

    def _draw(self, rng: np.random.Generator, *parts: ClassCovariances) -> VirtualFeatures:
        distributions = list(class_distributions(parts))
        drawn = [draw_features(one, self.samples_per_class, rng) for one in distributions]
        return VirtualFeatures(
            np.array([one.label for one in distributions]), np.concatenate(drawn)
        )

    def fit(self, pooled: Sequence[ClassCovariances] | VirtualFeatures) -> LinearHead:
        """Return the logistic regression on virtual features."""
        if not isinstance(pooled, VirtualFeatures):
            pooled = self._draw(np.random.default_rng(self.seed), *pooled)
        check_two_classes(pooled.classes)
        class_index = np.repeat(np.arange(len(pooled.classes)), self.samples_per_class)
        return logistic_regression(
            pooled.features, class_index, pooled.classes, max_iter=self.max_iter, method=self.name
        )


@dataclass(frozen=True, eq=False)
class VirtualFeatures:
    """What was drawn for some classes, equally many features for each.

    Parameters
    ----------
    classes : ndarray, shape (classes,)
    features : ndarray of float64, shape (classes * samples, dim)
    """

    classes: NDArray[Any]
    features: NDArray[np.float64]

    @classmethod
    def together(cls, parts: Sequence[VirtualFeatures]) -> VirtualFeatures:
        """Put them one behind the other."""
        return cls(
            np.concatenate([part.classes for part in parts]),
            np.concatenate([part.features for part in parts]),
        )
