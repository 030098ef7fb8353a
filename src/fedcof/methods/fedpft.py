"""FedPFT: a classifier on features drawn from the clients' mixtures (Beitollahi et al., 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcof.heads import LinearHead
from fedcof.methods.base import Method, check_two_classes
from fedcof.methods.passes import Pass, PickedRows, PickRows, Roll, RollCall
from fedcof.methods.virtual_features import logistic_regression
from fedcof.settings import setting
from fedcof.summaries import Summary, merge
from fedcof.summaries.class_mixtures import (
    ClassDiagonalMixtures,
    ClassMixtures,
    ClassSphericalMixtures,
)

M = TypeVar("M", bound=ClassMixtures)


@dataclass(frozen=True, eq=False)
class Drawn:
    """The components that virtual features are drawn from, a row a feature.

    Parameters
    ----------
    classes : ndarray, shape (classes,)
    means : ndarray of float, shape (classes * samples_per_class, dim)
    variances : ndarray of float, shape (classes * samples_per_class, ...)
    rng : numpy.random.Generator
        It has drawn the components and draws the features.
    """

    classes: NDArray[Any]
    means: NDArray[np.floating[Any]]
    variances: NDArray[np.floating[Any]]
    rng: np.random.Generator


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

    def streamed(self) -> Pass[Any]:
        """Return a pass that counts; the components that are drawn from are kept by the next."""
        return RollCall(self._picking)

    def _picking(self, roll: Roll) -> Pass[Any]:
        rng = np.random.default_rng(self.seed)
        rows = self._draw(roll.class_index, roll.counts, rng)
        wanted = roll.wanted(np.unique(rows))
        of_rows = partial(_drawn_of, roll.totals.classes, rows, rng)
        return PickRows(wanted, ("means", "covariances"), of_rows)

    def _draw(
        self, class_index: NDArray[np.integer[Any]], counts: NDArray[Any], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the row of the component that every virtual feature is drawn from."""
        drawn = []
        for index in range(int(class_index.max()) + 1):
            rows = np.flatnonzero(class_index == index)
            shares = counts[rows] / counts[rows].sum()
            drawn.append(rng.choice(rows, self.samples_per_class, p=shares))
        return np.concatenate(drawn)

    def fit(self, pooled: M | Drawn) -> LinearHead:
        """Return the logistic regression on virtual features."""
        if isinstance(pooled, Drawn):
            components = pooled
        else:
            rng = np.random.default_rng(self.seed)
            classes, class_index = np.unique(pooled.classes, return_inverse=True)
            rows = self._draw(class_index, pooled.counts, rng)
            components = Drawn(classes, pooled.means[rows], pooled.covariances[rows], rng)
        check_two_classes(components.classes)
        deviations = np.sqrt(components.variances.astype(np.float64))
        noise = components.rng.standard_normal(components.means.shape)
        return logistic_regression(
            components.means + deviations.reshape(len(noise), -1) * noise,
            np.repeat(np.arange(len(components.classes)), self.samples_per_class),
            components.classes,
            max_iter=self.max_iter,
            method=self.name,
        )


def _drawn_of(
    classes: NDArray[Any],
    rows: NDArray[np.int64],
    rng: np.random.Generator,
    picked: PickedRows | None,
) -> Drawn:
    assert picked is not None
    places = np.searchsorted(picked.rows, rows)
    means, variances = picked.arrays["means"], picked.arrays["covariances"]
    return Drawn(classes, means[places], variances[places], rng)


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
