"""SLOT-Align: clients brought to one Gaussian before they are pooled (Berardini et al., 2026)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from fedcof.methods.fed3r_lossless import Fed3RLossless, the_sum
from fedcof.methods.passes import Pass, SumsPass
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

    def streamed(self) -> Pass[Any]:
        """Return a pass for what covariances are shrunk to; every step of the barycentre is one.

        The last one moves the clients' statistics and adds them up.
        """
        if self.transport == 0:
            return super().streamed()
        return _SpherePass(self.transport)

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
    return [_shrunk(each, n, sphere) for each, n in zip(own, samples.tolist(), strict=True)]


def _shrunk(own: Gaussian, samples: int, sphere: float) -> Gaussian:
    share = max(_LEAST_SHARE, _shrinkage(own.covariance, samples))
    return Gaussian(own.mean, add_to_diagonal((1 - share) * own.covariance, share * sphere))


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
        covariance, done = _stepped(covariance, inverse, np.asarray(middle))
        if done:
            break
    return Gaussian(np.asarray(mean), covariance)


def _stepped(
    covariance: NDArray[np.float64], inverse: NDArray[np.float64], middle: NDArray[np.float64]
) -> tuple[NDArray[np.float64], bool]:
    """Return the next covariance on the way to the barycentre, and whether it is near enough."""
    following = inverse @ middle @ middle @ inverse
    moved_by = linalg.norm(following - covariance) / linalg.norm(covariance)
    return (following + following.T) / 2, bool(moved_by < _CLOSE)


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


# The same in passes, which hold no client's Gaussian


@dataclass(frozen=True, eq=False)
class _Moments:
    """What all covariances are shrunk to, and the mean.

    Parameters
    ----------
    clients, samples : int
    trace : float
        The sum of the clients' samples times the traces of their covariances.
    sums : ndarray of float64, shape (dim,)
        The sum of all features.
    """

    clients: int
    samples: int
    trace: float
    sums: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _SpherePass(Pass[_Moments]):
    """The first pass.

    Parameters
    ----------
    transport : float
        That of the method.
    """

    transport: float

    def partial(self, parts: Sequence[GramFactor]) -> _Moments:
        """Sum over these clients."""
        clients, samples, trace, sums = 0, 0, 0.0, np.zeros(parts[0].dim)
        for gram in _grams_of(parts):
            clients += 1
            samples += gram.total
            trace += gram.total * float(np.trace(_moments(gram).covariance))
            sums += gram.sums.sum(axis=0, dtype=np.float64)
        return _Moments(clients, samples, trace, sums)

    def add(self, first: _Moments, second: _Moments) -> _Moments:
        """Add them."""
        return _Moments(
            first.clients + second.clients,
            first.samples + second.samples,
            first.trace + second.trace,
            first.sums + second.sums,
        )

    def finish(self, total: _Moments) -> object:
        """Return the pass for the mean covariance, with which the barycentre begins."""
        if total.clients == 1:
            return Fed3RLossless().streamed()
        sphere = total.trace / total.samples / len(total.sums) or 1.0
        mean = total.sums / total.samples
        return _BarycentrePass(self.transport, sphere, total.samples, mean)


@dataclass(frozen=True, eq=False)
class _BarycentrePass(Pass[NDArray[np.float64]]):
    """The mean of the clients' covariances, or a step from there towards the barycentre.

    Parameters
    ----------
    transport, sphere : float
    samples : int
        Those of all clients.
    mean : ndarray of float64, shape (dim,)
        That of all features.
    covariance : ndarray of float64, shape (dim, dim), optional
        Where the step begins; None before the first.
    steps : int, default 0
        How many were taken.
    """

    transport: float
    sphere: float
    samples: int
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64] | None = None
    steps: int = 0

    def partial(self, parts: Sequence[GramFactor]) -> NDArray[np.float64]:
        """Return the weighted sum of the covariances, or of what `barycentre` takes of them."""
        root = None if self.covariance is None else _roots(self.covariance)[0]
        total = np.zeros((len(self.mean), len(self.mean)))
        for gram in _grams_of(parts):
            own = _shrunk(_moments(gram), gram.total, self.sphere).covariance
            share = gram.total / self.samples
            total += share * (own if root is None else _roots(root @ own @ root)[0])
        return total

    def add(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add them."""
        return first + second

    def finish(self, total: NDArray[np.float64]) -> object:
        """Return the pass for the next step, or that which moves the clients."""
        if self.covariance is None:
            return replace(self, covariance=total)
        covariance, done = _stepped(self.covariance, _roots(self.covariance)[1], total)
        if done or self.steps + 1 == _MOST_STEPS:
            return _moving(self.transport, self.sphere, Gaussian(self.mean, covariance))
        return replace(self, covariance=covariance, steps=self.steps + 1)


def _moving(transport: float, sphere: float, target: Gaussian) -> Pass[Any]:
    """Return the pass that adds up the clients' statistics, each moved towards the target."""
    return SumsPass(Gram, the_sum, partial(_moved_sum, transport, sphere, target))


def _moved_sum(transport: float, sphere: float, target: Gaussian, part: GramFactor) -> Gram:
    return merge(
        moved(gram, _shrunk(_moments(gram), gram.total, sphere), target, transport)
        for gram in _grams_of([part])
    )


def _grams_of(parts: Sequence[GramFactor]) -> Iterator[Gram]:
    return (gram for part in parts for gram in part.grams())
