"""The paper's noise on class counts (appendix "Improving Privacy Preservation").

This is not differential privacy: the means leave as they are, and uniform noise depends on the
counts that it is to hide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedcof.client import Step, check_by_class
from fedcof.errors import SettingError, SummaryError
from fedcof.settings import setting
from fedcof.summaries import Summary

Noise = Literal["uniform", "gaussian", "laplace"]


def noisy_counts(
    counts: NDArray[Any], noise: Noise, epsilon: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return counts with noise, clipped at zero.

    Parameters
    ----------
    counts : ndarray of int, shape (classes,)
        n_kc, those of the classes that a client has.
    noise : {"uniform", "gaussian", "laplace"}
    epsilon : float
        The smaller, the more noise.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of float64, shape (classes,)
        ``max(n_kc + sigma, 0)``, with sigma drawn for each class on its own:

        - uniform: U(-(1 - epsilon) n_kc, (1 - epsilon) n_kc);
        - gaussian: N(0, 1/epsilon), whose variance is 1/epsilon;
        - laplace: L(0, 1/epsilon), whose scale is 1/epsilon and whose variance is 2/epsilon**2.
    """
    size = np.shape(counts)
    match noise:
        case "uniform":
            sigma = rng.uniform(-1, 1, size) * (1 - epsilon) * counts
        case "gaussian":
            sigma = rng.normal(0, epsilon**-0.5, size)
        case "laplace":
            sigma = rng.laplace(0, 1 / epsilon, size)
    return np.asarray(np.maximum(counts + sigma, 0), dtype=np.float64)


@dataclass(frozen=True)
class CountNoise(Step):
    """Noise on the number of samples of every class; see `noisy_counts`.

    A class whose noisy count is not above zero is left out: neither its count nor its mean leaves
    the client. A noisy count that is sent is rounded, to 1 at least, as counts are whole numbers.
    Where a class has several rows, its count gets the noise once, and the rows share it as they
    shared the count.

    It is done to statistics with a mean a row. Over sums it makes no sense: a sum over a noisy
    count is another mean, and a class that is left out would still be in a Gram matrix.
    """

    name: ClassVar[str] = "count-noise"

    noise: Noise = setting("laplace", "The distribution of the noise.")
    epsilon: float = setting(0.5, "The smaller, the more noise; not one of privacy.", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise == "uniform" and self.epsilon > 1:
            raise SettingError(
                "epsilon",
                f"must be at most 1 where the noise is uniform, it is {self.epsilon:g}: the noise "
                "is a share 1 - epsilon of the count",
            )

    def check(self, kind: type[Summary]) -> None:
        """Check that every array has a row a class, so that a class can be left out."""
        check_by_class(self, kind)

    def __call__(self, summary: Summary, rng: np.random.Generator) -> Summary | None:
        """Return the summary of a client with noisy counts.

        Raises
        ------
        SummaryError
            If its means depend on its counts, or it says no means.
        """
        classes, class_index = np.unique(summary.classes, return_inverse=True)
        counts = np.bincount(class_index, summary.counts, len(classes))
        noisy = noisy_counts(counts, self.noise, self.epsilon, rng)
        left = summary.select((noisy > 0)[class_index])
        if left is None:
            return None
        share = (noisy / counts)[class_index][(noisy > 0)[class_index]]
        sent = replace(left, counts=np.maximum(np.rint(left.counts * share), 1))
        before, after = left.row_means, sent.row_means
        if before is None or after is None or not np.array_equal(before, after):
            raise SummaryError(
                "kind",
                f"noise on the counts of a summary of kind {summary.kind!r} would change its "
                "means; take a method whose clients send class means, such as fedcof",
                client_id=summary.client_ids[0],
            )
        return sent
