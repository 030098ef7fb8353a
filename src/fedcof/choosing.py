"""Shrinkage and the like, chosen from summaries alone: no data at the server, no validation client.

Two rules, by what the summaries hold:

- Where the Gram matrix of all samples is known, or all but known: the evidence of ridge regression,
  `ridge_by_evidence`. It is exact from G, B and N_c.
- Where the scatter is estimated from class means: every mean is left out in turn and makes a
  sample of its class that the solution has not seen, `HeldOutMeans.choose`. One
  eigendecomposition serves a whole grid.

The derivations are in ``docs/methods.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import log_ndtr

from fedcof.numerics import rounding
from fedcof.scatter import ClassStatistics
from fedcof.summaries import ClassMeans

_DECADE = 6
"""Candidates a decade: accuracy turns slowly with the shrinkage, by some tenths a decade."""

_LOWEST, _HIGHEST = 1e-9, 1e3
"""The relative shrinkages tried lie between: the head is that of the class means by 1,000."""

_MOST_ROWS = 3000
_MOST_SCORES = 1_000_000
"""Up to so many means are left out, and scores computed for them; more tell nothing new."""

_SHIFT = 0.5
"""Above this growth of the spread with the samples behind a mean, shift is most of it."""


# The Gram matrix of all samples is known


def ridge_by_evidence(
    gram: NDArray[np.floating[Any]],
    sums: NDArray[np.floating[Any]],
    class_counts: NDArray[np.int64],
) -> float:
    """Return the ridge that maximises the evidence of the regression on one-hot labels.

    Parameters
    ----------
    gram : ndarray of float, shape (dim, dim)
        G, the sum of the outer products of all features.
    sums : ndarray of float, shape (classes, dim)
        B, the sum of the features of every class.
    class_counts : ndarray of int64, shape (classes,)
        N_c.

    Returns
    -------
    float
        lambda, in the unit of G.

    Notes
    -----
    With weights of prior variance ``s^2 / lambda`` and noise of variance s^2, which is put in at
    its best, the log evidence of the C columns of labels is up to a constant::

        -C/2 (N log(N - tr B (G + lambda)^-1 B^T) + log det(I + G / lambda))
    """
    values, basis = linalg.eigh(np.asarray(gram, np.float64))
    floor = rounding(values[-1], len(values))
    values = np.maximum(values, 0.0)
    energy = ((np.asarray(sums, np.float64) @ basis) ** 2).sum(axis=0)
    total = float(class_counts.sum())
    candidates = _logarithmic(floor, values[-1] * 10)
    left = total - (energy / (values + candidates[:, None])).sum(axis=1)
    left = np.maximum(left, rounding(total, len(values)))
    determinant = np.log1p(values / candidates[:, None]).sum(axis=1)
    return float(candidates[np.argmin(total * np.log(left) + determinant)])


def _logarithmic(lowest: float, highest: float) -> NDArray[np.float64]:
    steps = int(np.ceil(np.log10(highest / lowest) * _DECADE))
    return np.asarray(highest * 10.0 ** (np.arange(-steps, 1) / _DECADE))


# The scatter is estimated from means


def relative_candidates(values: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    """Return the relative shrinkages that may matter, six a decade.

    Parameters
    ----------
    values : ndarray of float64, shape (dim,)
        The eigenvalues of the matrix, ascending.
    unit : float
        What a relative shrinkage of 1 adds to its diagonal.
    """
    positive = values[values > rounding(values[-1], len(values))]
    lowest = max(positive[0] / unit / 100, _LOWEST) if len(positive) else _LOWEST
    return _logarithmic(min(lowest, _HIGHEST), _HIGHEST)


class Growth(NamedTuple):
    """How the spread of a class's means grows with the samples behind them.

    The square of ``sqrt(n) (mu_kc - mu_c)`` does not depend on n where a class is alike at all
    clients, and is in proportion to n where the clients differ.

    Parameters
    ----------
    exponent : float
        Its logarithm over that of n: about 0 without shift, 1 where there is nothing else. NaN
        where all means have the same samples behind them, so that it cannot be told.
    error : float
        The standard error of the exponent.
    """

    exponent: float
    error: float

    @property
    def is_shift(self) -> bool:
        """Whether most of the spread is shift, by more than chance does."""
        return self.exponent > max(_SHIFT, 2 * self.error)


class Choice(NamedTuple):
    """A relative shrinkage, and the accuracy that is expected of it, from 0 to 1."""

    relative: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class HeldOutMeans:
    """Means that are left out one at a time, and the classes that they are of.

    Parameters
    ----------
    class_means : ndarray of float64, shape (classes, dim)
        mu_c, over all clients.
    class_counts : ndarray of int64, shape (classes,)
        N_c.
    deviations : ndarray of float64, shape (rows, dim)
        ``e = sqrt(n N_c / (N_c - n)) (mu_kc - mu_c)``: where a class is alike at all clients it has
        the covariance of the samples of its class. The scatter of the means of the class is
        ``e e^T`` smaller without this mean.
    class_index : ndarray of int64, shape (rows,)
        The class of each.
    counts : ndarray of int64, shape (rows,)
        The samples behind each, n.
    client_index : ndarray of int64, shape (rows,)
        The client that sent each.
    shares : ndarray of float64, shape (rows,)
        What each counts in an average, so that a class counts by its samples; they sum to 1.
    """

    class_means: NDArray[np.float64]
    class_counts: NDArray[np.int64]
    deviations: NDArray[np.float64]
    class_index: NDArray[np.int64]
    counts: NDArray[np.int64]
    client_index: NDArray[np.int64]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, statistics: ClassStatistics, class_means: NDArray[np.float64]) -> HeldOutMeans:
        """Take the means of classes that have two; of very many, as many at even distances."""
        rows = held_out_rows(statistics.means_per_class, statistics.class_index)
        index = statistics.class_index[rows]
        counts, totals = statistics.counts[rows], statistics.class_counts[index]
        stretch = np.sqrt(counts * (totals / (totals - counts)))
        shares = totals / np.bincount(index, minlength=len(class_means))[index]
        return cls(
            class_means=class_means,
            class_counts=statistics.class_counts,
            deviations=(_take(statistics.means, rows) - class_means[index]) * stretch[:, None],
            class_index=index,
            counts=counts,
            client_index=statistics.client_index[rows],
            shares=shares / shares.sum(),
        )

    @property
    def scatter_of_mean(self) -> NDArray[np.float64]:
        """``N mu_g mu_g^T``, the part of G that is no scatter."""
        total = self.class_counts @ self.class_means
        return np.asarray(np.outer(total, total) / self.class_counts.sum())

    @property
    def growth(self) -> Growth:
        """How the spread grows with the samples behind a mean."""
        squares = (self.deviations**2).sum(axis=1)
        known = squares > 0
        x, y = np.log(self.counts[known]), np.log(squares[known])
        if len(x) < 3 or np.ptp(x) == 0:
            return Growth(np.nan, np.inf)
        x, y = x - x.mean(), y - y.mean()
        exponent = float(x @ y / (x @ x))
        residual = y - exponent * x
        error = np.sqrt(residual @ residual / (len(x) - 2) / (x @ x))
        return Growth(exponent, float(error))

    def choose(
        self,
        matrix: NDArray[np.float64],
        unit: float,
        weights: NDArray[np.float64],
        *,
        log_priors: NDArray[np.float64] | None = None,
        candidates: NDArray[np.float64] | None = None,
    ) -> Choice:
        """Return the shrinkage with which the most samples are expected to be right.

        Parameters
        ----------
        matrix : ndarray of float64, shape (dim, dim)
            G without its shrinkage; for the discriminant analysis the covariance.
        unit : float
            What a relative shrinkage of 1 adds to its diagonal; positive.
        weights : ndarray of float64, shape (rows,)
            How often the matrix holds ``e e^T`` of every row.
        log_priors : ndarray of float64, shape (classes,), optional
            Of the discriminant analysis; None for the regression with rows of length 1.
        candidates : ndarray of float64, optional
            The relative shrinkages to take one of. By default those that may matter, six a decade:
            from a hundredth of the smallest eigenvalue that is not zero.

        Notes
        -----
        Without row i, by Sherman and Morrison, with ``h = w e^T G^-1 e``::

            e^T G_-i^-1 mu_c = e^T G^-1 mu_c / (1 - h)

        The sample that a row makes is ``mu_c + e``. It is right if it scores more for its class
        than for every other one; to be smooth in the shrinkage, each comparison has a normal noise,
        narrower as there are more rows. The class mean holds the samples that the classifier is
        made for, so its own score is too high by ``tr(G^-1 Sigma) / N_c``, which goes off.

        Where most of the spread is shift (`Growth`), e is ``sqrt(n)`` times the shift, and the
        sample is ``mu_c + e / sqrt(n)`` plus the noise of a sample at its client. If nothing is
        known of that, it is taken to be as large as the shift, and the same in every direction.
        """
        spectrum = linalg.eigh(matrix)
        if candidates is None:
            candidates = relative_candidates(spectrum[0], unit)
        diagonals = unit * candidates
        noise = self.isotropic_noise() if self.growth.is_shift else None
        curve = self.accuracies(spectrum, diagonals, weights, log_priors=log_priors, noise=noise)
        best = int(np.argmax(curve))
        return Choice(float(candidates[best]), float(curve[best]))

    def isotropic_noise(self) -> NDArray[np.float64]:
        """Return a covariance as large as the shift, and the same in every direction."""
        dim = self.class_means.shape[1]
        spread = ((self.deviations**2).sum(axis=1) / self.counts) @ self.shares
        return np.asarray(np.eye(dim) * (spread / dim))

    def accuracies(
        self,
        spectrum: tuple[NDArray[np.float64], NDArray[np.float64]],
        diagonals: NDArray[np.float64],
        weights: NDArray[np.float64],
        *,
        log_priors: NDArray[np.float64] | None = None,
        noise: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Return the accuracy to be expected for each of several multiples of the identity.

        Parameters
        ----------
        spectrum : eigenvalues and eigenvectors of the matrix
        diagonals : ndarray of float64, shape (candidates,)
            What is added to the diagonal.
        weights : ndarray of float64, shape (rows,)
            How often the matrix holds ``e e^T`` of every row.
        log_priors
            As in `choose`.
        noise : ndarray of float64, shape (dim, dim), optional
            The covariance of a sample at its client, where most of the spread is shift; None where
            the deviations are those of samples.
        """
        values, basis = np.maximum(spectrum[0], 0.0), spectrum[1]
        centre = 0.0 if log_priors is None else np.exp(log_priors) @ self.class_means
        means = (self.class_means - centre) @ basis
        rows = self.deviations @ basis
        turned = None if noise is None else basis.T @ noise @ basis
        curve = [
            self._accuracy(
                1 / (values + diagonal), means, rows, weights, log_priors=log_priors, noise=turned
            )
            for diagonal in diagonals
        ]
        return np.array(curve)

    def only(self, rows: NDArray[np.bool_]) -> HeldOutMeans:
        """Return some of the rows; the shares still sum to 1 over all."""
        names = ("deviations", "class_index", "counts", "client_index", "shares")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def _accuracy(
        self,
        inverse: NDArray[np.float64],
        means: NDArray[np.float64],
        rows: NDArray[np.float64],
        weights: NDArray[np.float64],
        *,
        log_priors: NDArray[np.float64] | None,
        noise: NDArray[np.float64] | None,
    ) -> float:
        """Return the accuracy to be expected; in the basis of the eigenvectors of the matrix."""
        own = np.arange(len(rows)), self.class_index
        solved = means * inverse  # G^-1 mu_c, one row a class, in the eigenvectors' basis
        of_means = means @ solved.T
        of_rows = rows @ solved.T
        squares = rows**2 @ inverse
        kept = 1 / (1 - np.minimum(weights * squares, 1 - 1e-9))
        without = of_rows * kept[:, None]
        if noise is None:
            scores = of_means[self.class_index] + without
            shares = self.shares / self.shares.sum()
            scores[own] -= (squares * kept) @ shares / self.class_counts[self.class_index]
            blur = without.T @ (without * shares[:, None]) * len(rows) ** -0.4
        else:
            scores = of_means[self.class_index] + without / np.sqrt(self.counts)[:, None]
            blur = solved @ noise @ solved.T
        if log_priors is None:
            lengths = np.linalg.norm(solved, axis=1)
            lengths[lengths == 0] = 1.0
        else:
            lengths = np.ones(len(means))
            scores += log_priors - np.diag(of_means) / 2
        scores /= lengths
        blur /= np.outer(lengths, lengths)
        variances = np.diag(blur)[:, None] + np.diag(blur) - 2 * blur
        margins = scores[own][:, None] - scores
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = margins / np.sqrt(np.maximum(variances, 0.0))[self.class_index]
        ratios[np.isnan(ratios)] = 0.0  # two classes that nothing tells apart
        ratios[own] = np.inf
        return float(np.exp(log_ndtr(ratios).sum(axis=1)) @ self.shares)


def held_out_rows(
    means_per_class: NDArray[np.int64], class_index: NDArray[np.integer[Any]]
) -> NDArray[np.int64]:
    """Return which means are left out in turn: of classes that have two, so many at most."""
    rows = np.flatnonzero(means_per_class[class_index] > 1)
    most = min(_MOST_ROWS, max(1, _MOST_SCORES // len(means_per_class)))
    if len(rows) > most:
        rows = rows[np.linspace(0, len(rows) - 1, most).round().astype(np.int64)]
    return rows


def growth_between(parts: Sequence[ClassMeans]) -> Growth:
    """Return how the spread of the class means of some sites grows with the samples behind them.

    Parameters
    ----------
    parts : sequence of ClassMeans
        As `fedcof.summaries.ordered` gives them.
    """
    statistics = ClassStatistics.of(parts)
    if statistics.means_per_class.max() < 2:
        return Growth(np.nan, np.inf)
    return HeldOutMeans.of(statistics, statistics.class_means()).growth


def _take(means: Any, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return rows of arrays that stand one after the other, in float64."""
    starts = np.cumsum([0, *map(len, means)])
    arrays = np.searchsorted(starts, rows, side="right") - 1
    found = [means[array][row] for array, row in zip(arrays, rows - starts[arrays], strict=True)]
    return np.array(found, dtype=np.float64).reshape(len(rows), means[0].shape[1])
