"""FedCOF under shift: several means a client, and their differences within a client.

What separates two means of one class at one client is the spread of its samples alone. What
separates the means of two clients is that, and the shift between the clients as well.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import StreamingError, SummaryError
from fedcof.methods.fedcof import FedCOF
from fedcof.methods.passes import ROBUST, ClassPoints, ClassScatter, Pass
from fedcof.scatter import ClassStatistics, Scatter
from fedcof.settings import setting
from fedcof.summaries import ClassMeans


@dataclass(frozen=True)
class _UnderShift(FedCOF):
    """The scatter within the clients, of an estimated covariance, and that between them, as it is.

    The scatter within a class is the sum over clients of ``(n_kc - 1) Sigma_kc`` and of
    ``n_kc (mu_kc - mu_c)(mu_kc - mu_c)^T``. The server knows the second part in full. Only the
    first is estimated, by one covariance of all clients and classes, and under shift it alone may
    be multiplied by the number of samples.
    """

    means_per_class: int = setting(
        2, "Means of disjoint random sets that a client sends for a class.", minimum=1, client=True
    )

    def estimate(self, statistics: ClassStatistics) -> Scatter:
        """Return the scatter within the clients and between them.

        Raises
        ------
        SummaryError
            If no client sent two means of one class.
        """
        by_client, within = statistics.by_client()
        class_means, between = by_client.scatter_of_means()
        return self._scatter(
            Scatter(by_client.classes, class_means, by_client.class_counts, between),
            len(by_client.counts),
            within,
            len(statistics.counts) - len(by_client.counts),
        )

    def streamed(self) -> Pass[Any]:
        """Return the one pass for the differences within the clients and between them."""
        if self.robust:
            raise StreamingError(self.name, ROBUST)
        return _DifferencesPass(self._of_differences)

    def _of_differences(self, total: _Differences) -> Scatter:
        totals = total.between.totals
        between = Scatter(totals.classes, total.between.means, totals.counts, total.between.scatter)
        return self._scatter(between, int(totals.rows.sum()), total.within, total.of_within)

    def _scatter(
        self, between: Scatter, joined: int, within: NDArray[np.float64], of_within: int
    ) -> Scatter:
        """Return the estimate.

        Parameters
        ----------
        between : Scatter
            That of the means of the clients, one a class each.
        joined : int
            How many these are.
        within : ndarray of float64, shape (dim, dim)
            The scatter of the means that were joined to them.
        of_within : int
            Its degrees of freedom.
        """
        if of_within == 0:
            raise SummaryError(
                "means",
                "no client sent two means of one class, so nothing is known of the spread within a "
                "client: let them send several (means_per_class), or take fedcof",
            )
        of_between = joined - len(between.classes)
        covariance = within / of_within
        if of_between:
            found = between.within_scatter / of_between
            weight = self.weight_between(covariance, of_within, found, of_between)
            covariance += weight * (found - covariance)
        scatter = (between.total - joined) * covariance + between.within_scatter
        return replace(between, within_scatter=scatter)

    @abstractmethod
    def weight_between(
        self,
        within: NDArray[np.float64],
        of_within: int,
        between: NDArray[np.float64],
        of_between: int,
    ) -> float:
        """Return the weight, from 0 to 1, of the estimate from the differences between clients.

        Parameters
        ----------
        within, between : ndarray of float64, shape (dim, dim)
            The covariance by the differences within the clients, and by those between them.
        of_within, of_between : int
            Their degrees of freedom.
        """


@dataclass(frozen=True)
class FedCOFWithin(_UnderShift):
    """FedCOF on the differences of means within the clients, which no shift can bias.

    Parameters
    ----------
    shrinkage, scatter, means_per_class, form, priors, temperature
        As in `FedCOF`; the default of `means_per_class` is 2.
    """

    name: ClassVar[str] = "fedcof-within"

    def weight_between(
        self,
        within: NDArray[np.float64],
        of_within: int,
        between: NDArray[np.float64],
        of_between: int,
    ) -> float:
        """Return 0."""
        return 0.0


@dataclass(frozen=True)
class FedCOFGated(_UnderShift):
    """FedCOF on the differences within the clients and, as far as they agree, between them.

    Parameters
    ----------
    shrinkage, scatter, means_per_class, form, priors, temperature
        As in `FedCOF`; the default of `means_per_class` is 2.

    Notes
    -----
    The weight is that of the smallest expected squared error. With A the estimate within, of a
    degrees of freedom, B that between, of b, and D what shift adds to B, the error of
    ``(1 - w) A + w B`` is ``w^2 |D|^2 + ((1 - w)^2 / a + w^2 / b) V``, where V = tr(Sigma)^2 +
    tr(Sigma^2) is that of one difference of Gaussian means. It is least for ``w = (V / a) /
    (|D|^2 + V / a + V / b)``, and ``|A - B|^2`` is an unbiased estimate of the denominator, which
    is at least ``V / a + V / b``. Without shift both estimates count by their degrees of freedom.
    """

    name: ClassVar[str] = "fedcof-gated"

    def weight_between(
        self,
        within: NDArray[np.float64],
        of_within: int,
        between: NDArray[np.float64],
        of_between: int,
    ) -> float:
        """Return the weight of the smallest expected squared error."""
        # |A|^2 expects tr(Sigma^2) + V / a: with tr(A)^2 for tr(Sigma)^2, that is V so.
        trace = float(np.trace(within)) ** 2
        noise = (trace + float(np.vdot(within, within))) * of_within / (of_within + 1)
        apart = float(((within - between) ** 2).sum())
        least = noise / of_within + noise / of_between
        return noise / of_within / max(apart, least) if least else 1.0


@dataclass(frozen=True, eq=False)
class _Differences:
    """What of the differences of some clients' means adds up.

    Parameters
    ----------
    between : ClassScatter
        Of the means of the clients, one a class each.
    within : ndarray of float64, shape (dim, dim)
        The scatter of the means that were joined to them.
    of_within : int
        Its degrees of freedom.
    """

    between: ClassScatter
    within: NDArray[np.float64]
    of_within: int


@dataclass(frozen=True, eq=False)
class _DifferencesPass(Pass[_Differences]):
    """The differences of the means of a class within the clients, and between them.

    Parameters
    ----------
    then : callable
        Returns what `Method.fit` takes.
    points : ClassPoints, optional
        What the scatter between is summed about; see `fedcof.methods.passes.ScatterPass`.
    """

    then: Callable[[_Differences], object]
    points: ClassPoints | None = None

    def partial(self, parts: Sequence[ClassMeans]) -> _Differences:
        """Sum over these clients, each of whom is here with all of its means."""
        statistics = ClassStatistics.of_parts(parts)
        by_client, within = statistics.by_client(np.float64)
        labels = by_client.classes[by_client.class_index]
        between = ClassScatter.of(by_client.means, labels, by_client.counts, points=self.points)
        return _Differences(between, within, len(statistics.counts) - len(labels))

    def add(self, first: _Differences, second: _Differences) -> _Differences:
        """Add them."""
        return _Differences(
            first.between + second.between,
            first.within + second.within,
            first.of_within + second.of_within,
        )

    def finish(self, total: _Differences) -> object:
        """Return what the head is made of; a pass about the class means where that is needed."""
        if self.points is None and not total.between.is_exact:
            points = ClassPoints(total.between.totals.classes, total.between.means)
            return replace(self, points=points)
        return self.then(total)
