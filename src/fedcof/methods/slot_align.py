"""SLOT-Align: clients brought to one Gaussian before they are pooled (Berardini et al., 2026)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from fedcof.methods.fed3r_lossless import Fed3RLossless
from fedcof.numerics import add_to_diagonal, rounding
from fedcof.settings import setting
from fedcof.summaries import Gram, merge
from fedcof.summaries.gram_factor import GramFactor

_MOST_STEPS, _CLOSE = 50, 1e-4
"""The barycentre is found when a step moves it by less than this share, or after so many steps."""
_LEAST_SHARE = 1e-6
"""Of the sphere in a covariance, so that it is definite."""


class Gaussian(NamedTuple):
    """Mean, shape (dim,), and covariance, shape (dim, dim)."""

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]


@dataclass(frozen=True)
class SLOTAlign(Fed3RLossless):
    """Fed3R on features that every client's optimal transport has brought nearer to all clients'.

    A client's features count for a Gaussian. The server takes the Wasserstein barycentre of all and
    moves each client's statistic a part of the way to it. Where the clients' features are shifted
    against each other, their classes then lie closer.

    Parameters
    ----------
    transport : float, default 0.4
        How much of the way, from 0 to 1; 0 is Fed3R.
    ridge, form, priors
        As in `Fed3R`.

    Notes
    -----
    After "Distribution Alignment for One-Shot Federated Learning via Optimal Transport" and its
    code. Theirs takes an exchange more: statistics go up, maps come down, and aligned features are
    trained on. A transport of Gaussians is affine, and an affine map of the features is one of
    Fed3R's statistic, so the server does it here and clients send once, no more than for Fed3R.
    Departures: covariances are shrunk by the oracle approximating shrinkage, which needs no
    samples, in place of Ledoit and Wolf's; and the head takes features as they are, whereas their
    test features go through the map of the client that they belong to.
    """

    name: ClassVar[str] = "slot-align"

    transport: float = setting(
        0.4, "How much of the way to the clients' barycentre.", minimum=0, maximum=1
    )

    def pool(self, parts: Sequence[GramFactor]) -> Gram:  # type: ignore[override]
        """Return the matrices of all clients, aligned."""
        grams = list(merge(parts).grams())
        if len(grams) == 1 or self.transport == 0:
            return merge(grams)
        gaussians = common_gaussians(grams)
        weights = np.array([gram.total for gram in grams], dtype=np.float64)
        target = barycentre(gaussians, weights / weights.sum())
        return merge(
            moved(gram, own, target, self.transport)
            for gram, own in zip(grams, gaussians, strict=True)
        )

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> None:  # type: ignore[override]
        """Return None: what is pooled depends on who holds what."""


def common_gaussians(grams: Sequence[Gram]) -> list[Gaussian]:
    """Return the Gaussian of every client's features, all classes together.

    A covariance is shrunk towards the sphere of the clients' mean variance as far as the oracle
    approximating shrinkage says (Chen et al., 2010): all of it for a client of one sample.
    """
    own = [_moments(gram) for gram in grams]
    samples = np.array([gram.total for gram in grams])
    traces = np.array([np.trace(each.covariance) for each in own])
    sphere = float(samples @ traces / samples.sum()) / grams[0].dim or 1.0
    shrunk = []
    for each, count in zip(own, samples.tolist(), strict=True):
        share = max(_LEAST_SHARE, _shrinkage(each.covariance, count))
        covariance = add_to_diagonal((1 - share) * each.covariance, share * sphere)
        shrunk.append(Gaussian(each.mean, covariance))
    return shrunk


def _moments(gram: Gram) -> Gaussian:
    mean = gram.sums.sum(axis=0, dtype=np.float64) / gram.total
    return Gaussian(mean, gram.gram / gram.total - np.outer(mean, mean))


def _shrinkage(covariance: NDArray[np.float64], samples: int) -> float:
    """Return the share of the sphere by the oracle approximating shrinkage."""
    trace, squares = float(np.trace(covariance)), float(np.square(covariance).sum())
    off_sphere = squares - trace**2 / len(covariance)
    if samples == 1 or off_sphere <= rounding(squares, len(covariance)):
        return 1.0
    return min(1.0, (squares + trace**2) / ((samples + 1) * off_sphere))


def barycentre(gaussians: Sequence[Gaussian], weights: NDArray[np.float64]) -> Gaussian:
    """Return the Gaussian of the least weighted sum of squared Wasserstein distances.

    Its covariance is the fixed point of ``S <- S^-1/2 (sum_k w_k (S^1/2 S_k S^1/2)^1/2)^2 S^-1/2``
    (Alvarez-Esteban et al., 2016).
    """
    mean = sum(w * each.mean for w, each in zip(weights, gaussians, strict=True))
    covariance = np.asarray(
        sum(w * each.covariance for w, each in zip(weights, gaussians, strict=True))
    )
    for _ in range(_MOST_STEPS):
        root, inverse = _roots(covariance)
        middle = sum(
            w * _roots(root @ each.covariance @ root)[0]
            for w, each in zip(weights, gaussians, strict=True)
        )
        following = inverse @ middle @ middle @ inverse
        moved_by = linalg.norm(following - covariance) / linalg.norm(covariance)
        covariance = (following + following.T) / 2
        if moved_by < _CLOSE:
            break
    return Gaussian(np.asarray(mean), covariance)


def transport_matrix(
    source: NDArray[np.float64], target: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the symmetric A of least movement with ``A source A = target``."""
    root, inverse = _roots(source)
    return np.asarray(inverse @ _roots(root @ target @ root)[0] @ inverse)


def moved(gram: Gram, source: Gaussian, target: Gaussian, share: float) -> Gram:
    """Return the statistic of features that go a share of the way from one Gaussian to another.

    Features x become ``A x + b``, so their sums and Gram matrix change in closed form.
    """
    full = transport_matrix(source.covariance, target.covariance)
    matrix = add_to_diagonal(share * full, 1 - share)
    bias = share * (target.mean - full @ source.mean)
    total = gram.sums.sum(axis=0, dtype=np.float64)
    cross = np.outer(matrix @ total, bias)
    return replace(
        gram,
        sums=gram.sums @ matrix.T + gram.counts[:, None] * bias,
        gram=matrix @ gram.gram @ matrix.T + cross + cross.T + gram.total * np.outer(bias, bias),
    )


def _roots(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the root of a symmetric matrix and the inverse of the root.

    An eigenvalue of 0 or below counts as a tiny one.
    """
    values, vectors = linalg.eigh((matrix + matrix.T) / 2)
    roots = np.sqrt(np.maximum(values, rounding(values[-1], len(values))))
    return (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T
