"""The second moments of all features times a random matrix: what FedCOFLinearSketch sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import SummaryError
from fedcof.numerics import blocks, gaussian
from fedcof.summaries.class_sums import ClassSums, sums_of_samples
from fedcof.summaries.samples import Seed


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearSketch(ClassSums):
    """The sum of every class, ``sum x x^T`` times a matrix O that all clients share, and its trace.

    All of it adds up, so a server that is told nothing but the sum over all clients has enough.

    Parameters
    ----------
    sums : ndarray of float, shape (rows, dim)
        The sum of the features of every class; a class has one row.
    products : ndarray of float, shape (width, dim)
        ``O^T sum x x^T``, with O as `random_basis` draws it.
    squares : ndarray of float, shape (single,)
        One number, the sum of ``|x|^2``.
    """

    kind: ClassVar[str] = "linear-sketch"
    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "sums": ("rows", "dim"),
        "products": ("width", "dim"),
        "squares": ("single",),
    }

    products: NDArray[np.floating[Any]]
    squares: NDArray[np.floating[Any]]

    @classmethod
    def summarize(
        cls,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        client_id: str = "",
        rng: Seed = None,
        width: int = 128,
        matrix_seed: int = 0,
    ) -> Self:
        """Return a client's sums, in float64; nothing is drawn but O, the same for all."""
        array, fields = sums_of_samples(features, labels, client_id)
        basis = random_basis(array.shape[1], width, matrix_seed)
        products, squares = np.zeros(basis.T.shape), 0.0
        for _, block in blocks([array], np.float64):
            products += (block @ basis).T @ block
            squares += float(np.vdot(block, block))
        return cls(
            **fields,
            products=products,
            squares=np.array([squares]),
        )

    @property
    def within_trace(self) -> float:
        """What the class means leave of the sum of squares."""
        return float(self.squares[0]) - float(np.vdot(self.row_means, self.sums))

    @cached_property
    def scale(self) -> float:
        """The largest number in a class mean, or the root mean square of all features' lengths."""
        mean_square = abs(float(self.squares[0])) / self.total
        return float(max(np.abs(self.row_means).max(), mean_square**0.5))

    @classmethod
    def expected_lengths(
        cls, dim: int, client_settings: Mapping[str, Any], samples: int | None = None
    ) -> dict[str, int]:
        """Return the lengths of the axes; O has no more columns than a feature has numbers."""
        lengths = super().expected_lengths(dim, client_settings, samples)
        return {**lengths, "width": min(lengths["width"], dim), "single": 1}

    def _check(self) -> None:
        super()._check()
        if self.squares.shape != (1,) or self.squares[0] < 0:
            raise SummaryError("shape", "squares must be one number of at least 0")
        if len(self.products) > self.dim:
            raise SummaryError(
                "shape",
                f"products has {len(self.products)} rows, more than the {self.dim} numbers of a "
                "feature",
            )


@lru_cache(maxsize=4)
def random_basis(dim: int, width: int, seed: int) -> NDArray[np.float64]:
    """Return O: orthonormal columns that span a random space, shape (dim, min(width, dim)).

    The Q of the decomposition QR of a matrix of normal numbers, with the signs that make the
    diagonal of R positive: up to rounding the same on every machine.

    Examples
    --------
    >>> basis = random_basis(5, 2, 0)
    >>> np.allclose(basis.T @ basis, np.eye(2))
    True
    """
    # The stream is another one than that of RandomFeatures with the same seed.
    basis, triangle = np.linalg.qr(gaussian([seed, 1], dim, min(width, dim)))
    basis *= np.sign(np.diag(triangle))
    basis.flags.writeable = False
    return np.asarray(basis)
