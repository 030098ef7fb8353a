"""Gaussian mixtures of every class: what FedPFT sends."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import naming
from fedcof.summaries.class_moments import (
    ClassDistribution,
    ClassMoments,
    ClassSphericalVariances,
    ClassVariances,
)
from fedcof.summaries.client_rows import joining
from fedcof.summaries.samples import Seed, check_samples


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassMixtures(ClassMoments):
    """Components of a mixture for every class, a row each: mean, variances and samples.

    A component counts the samples that are likeliest to be its own, and its weight is their share
    of the class's. So counts are whole, and all of them together are the client's samples.
    """

    shape: ClassVar[Literal["diag", "spherical"]]
    """The covariance of a component, as scikit-learn's ``GaussianMixture`` calls it."""

    def _check_rows(self) -> None:
        """Check nothing: a class may have several components."""

    @classmethod
    def summarize(
        cls,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        client_id: str = "",
        rng: Seed = None,
        components: int = 1,
    ) -> Self:
        """Return the mixtures of a client's classes, in float64.

        Parameters
        ----------
        features, labels, client_id
            As for `fedcof.summarize`.
        rng : numpy.random.Generator or int, optional
            Starts the components, where a class has several.
        components : int, default 1
            The most that a class has; each has two samples on average at least.
        """
        with naming(client_id):
            array, coded = check_samples(features, labels)
        rng = np.random.default_rng(rng)

        def distributions() -> Iterator[ClassDistribution]:
            for label in np.unique(coded):
                members = array[coded == label].astype(np.float64)
                own = min(components, max(1, len(members) // 2))
                for count, mean, variance in cls._mixture(members, own, rng):
                    yield ClassDistribution(label.item(), count, mean, variance)

        return cls.of_distributions(distributions(), client_ids=(client_id,))

    @classmethod
    def _mixture(
        cls, members: NDArray[np.float64], components: int, rng: np.random.Generator
    ) -> Iterator[tuple[int, NDArray[np.float64], NDArray[np.float64]]]:
        """Yield count, mean and variances of the components that samples belong to."""
        if components == 1:
            mean = members.mean(axis=0)
            yield len(members), mean, cls.spread(members - mean) / max(1, len(members) - 1)
            return
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture

        mixture = GaussianMixture(
            components, covariance_type=cls.shape, random_state=int(rng.integers(2**31))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            belonging = mixture.fit_predict(members)
        for component, count in enumerate(np.bincount(belonging, minlength=components).tolist()):
            if count:
                yield count, mixture.means_[component], np.asarray(mixture.covariances_[component])

    def joined(self, least: int) -> Self:
        """Return the mixtures of a client with small components of a class joined; see `joining`.

        A component of several has their mean and, with the spread of their means, their variance.
        """
        sets = joining(self.classes, self.counts, least)

        def distributions() -> Iterator[ClassDistribution]:
            for number in range(sets.max() + 1):
                rows = np.flatnonzero(sets == number)
                counts, means = self.counts[rows], self.means[rows].astype(np.float64)
                mean = counts @ means / counts.sum()
                spread = self.spread((means - mean) * np.sqrt(counts)[:, None])
                variance = (counts @ self.covariances[rows] + spread) / counts.sum()
                label = self.classes[rows[0]].item()
                yield ClassDistribution(label, int(counts.sum()), mean, variance)

        if len(sets) == sets.max() + 1:
            return self
        return self.of_distributions(
            distributions(), client_ids=self.client_ids, origin=self.origin
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassDiagonalMixtures(ClassMixtures, ClassVariances):
    """Mixtures of Gaussians with a variance a dimension."""

    kind: ClassVar[str] = "class-diagonal-mixtures"
    shape = "diag"


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassSphericalMixtures(ClassMixtures, ClassSphericalVariances):
    """Mixtures of Gaussians with one variance each."""

    kind: ClassVar[str] = "class-spherical-mixtures"
    shape = "spherical"
