"""FedCOFLinearSketch: class sums and a sketch of the scatter that add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from fedcof.errors import SummaryError
from fedcof.methods.sketched import Sketched, SketchedScatter
from fedcof.numerics import add_to_diagonal
from fedcof.settings import setting
from fedcof.summaries import LinearSketch, Summary, merge
from fedcof.summaries.linear_sketch import random_basis

_ROUNDING = 4 * float(np.finfo(np.float32).eps)
"""Of what comes over the wire, as a share of the largest eigenvalue."""

_MOST_ASYMMETRY = 0.5
"""Of a symmetric matrix in int4 it is far less; where the matrices O differ, it is 1.4."""


@dataclass(frozen=True, kw_only=True)
class FedCOFLinearSketch(Sketched[LinearSketch]):
    """A classifier from class sums and a linear sketch of the second moments: all of it adds up.

    A client sends ``T O`` for ``T = sum x x^T`` over its samples and a random matrix O that all
    share, beside class sums, counts and the trace of T. The server takes the class means off the
    sum over all clients and completes ``S O``, with S the scatter within the classes, to the
    approximation of Nystroem, ``(S O)(O^T S O)^+ (S O)^T``. What is left lies in the directions
    orthogonal to O and has a known trace.

    At equal bytes it is weaker than FedCOFSketch, whose vectors are each client's best; but it does
    not depend on who has which samples, and the server needs no client's own numbers.

    Parameters
    ----------
    width : int, default 128
        Columns of O; with as many as a feature has numbers the scatter is exact.
    matrix_seed : int, default 0
        O is drawn from it; the same at all clients and the server.
    shrinkage, shrinkage_relative, rho, form, priors
        As in `Sketched`.

    Notes
    -----
    Sums do not tell the scatter about the clients' own means, so T is about the origin and
    ``S = T - sum_c N_c mu_c mu_c^T`` is a difference. What cancels is lost: with numbers in float32
    on the wire, an eigenvalue of S below about 1e-7 of the largest of T is noise. The server treats
    it as such (see `nystroem`). Features far from the origin lose by it: with means of 1000
    standard deviations nothing of the scatter is left. Standardise them first, or center them about
    a point that all know.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> method = FedCOFLinearSketch(width=2)
    >>> sites = []
    >>> for name in ("a", "b", "c"):
    ...     labels = rng.integers(2, size=20)
    ...     features = rng.normal(size=(20, 4)) + 3.0 * labels[:, None]
    ...     sites.append(method.summarize(features, labels, client_id=name))
    >>> method.solve(sites).weight.shape
    (2, 4)
    """

    name: ClassVar[str] = "fedcof-linear-sketch"
    summary_type: ClassVar[type[Summary]] = LinearSketch

    width: int = setting(
        128,
        "Columns of the random matrix of fedcof-linear-sketch.",
        minimum=1,
        maximum=2**16,
        client=True,
    )
    matrix_seed: int = setting(
        0, "Seeds the random matrix of fedcof-linear-sketch.", minimum=0, maximum=2**63, client=True
    )

    def pool(self, parts: Sequence[LinearSketch]) -> SketchedScatter:
        """Return the class means and what is known of the scatter about them.

        Raises
        ------
        SummaryError
            If the clients drew O from another seed.
        """
        total = merge(parts)
        products = total.products.T.astype(np.float64)
        basis = random_basis(total.dim, products.shape[1], self.matrix_seed)
        check_symmetric(basis.T @ products)
        sums = total.sums.astype(np.float64)
        means = sums / total.counts[:, None]
        products = products - sums.T @ (means @ basis)
        squares = float(total.squares[0])
        trace = max(squares - float(np.vdot(means, sums)), 0.0)
        known = nystroem(products, basis, _ROUNDING * squares)
        shape, sphere = shape_beside(known, basis)
        return SketchedScatter(
            classes=total.classes,
            class_counts=total.counts,
            class_means=means,
            known=known,
            left=max(trace - float(np.trace(known)), 0.0),
            shape=shape,
            sphere=sphere,
        )

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> SketchedScatter:
        """Return what `pool` gives of the samples."""
        return self.pool([self.summarize(features, labels)])


def check_symmetric(matrix: NDArray[np.float64]) -> None:
    """Check that ``O^T T O`` is symmetric, as it is where both O are the same matrix.

    Raises
    ------
    SummaryError
        If it is not.
    """
    if linalg.norm(matrix - matrix.T) > _MOST_ASYMMETRY * linalg.norm(matrix):
        raise SummaryError(
            "products",
            "the clients' sketches are not of the random matrix that is drawn here: solve with the "
            "matrix_seed with which they were made",
        )


def nystroem(
    products: NDArray[np.float64], basis: NDArray[np.float64], noise: float
) -> NDArray[np.float64]:
    """Return the approximation of a positive semidefinite S from ``S O``.

    Parameters
    ----------
    products : ndarray of float64, shape (dim, width)
        ``S O``, up to noise.
    basis : ndarray of float64, shape (dim, width)
        O, with orthonormal columns.
    noise : float
        The size of errors in `products` that must be expected.

    Returns
    -------
    ndarray of float64, shape (dim, dim)
        ``(S O)(O^T S O)^+ (S O)^T``, symmetric and positive semidefinite.

    Notes
    -----
    As in Tropp et al., "Fixed-rank approximation of a positive-semidefinite matrix from streaming
    data" (2017): a small multiple of the identity is added to S, and taken off the eigenvalues of
    the result. It must be above the noise, or small eigenvalues of ``O^T S O`` are divided by
    noise; besides what is expected, the asymmetry of ``O^T S O`` and its negative eigenvalues tell
    how large that is.

    Examples
    --------
    >>> vector, basis = np.array([[3.0], [4.0]]), np.array([[1.0], [0.0]])
    >>> nystroem(vector @ (vector.T @ basis), basis, 1e-12).round(6)
    array([[ 9., 12.],
           [12., 16.]])
    """
    core = basis.T @ products
    asymmetry = float(linalg.norm(core - core.T, 2))
    values, vectors = linalg.eigh((core + core.T) / 2)
    shift = max(noise, asymmetry, -2 * float(values[0]))
    if shift == 0:
        shift = 1.0  # nothing is there
    factor = (products + shift * basis) @ (vectors / np.sqrt(values + shift))
    left, singular, _ = linalg.svd(factor, full_matrices=False)
    return np.asarray((left * np.maximum(singular**2 - shift, 0.0)) @ left.T)


def shape_beside(
    known: NDArray[np.float64], basis: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return an estimate of what the approximation of Nystroem leaves, and the sphere beside O.

    What is left is zero in the directions of O. In the others it is estimated as the square root of
    what is known, as in `fedcof.methods.fedcof_sketch.shape_of_rest`.

    Returns
    -------
    shape, sphere : ndarray of float64, shape (dim, dim)
        Both of trace 1.
    """
    dim, width = basis.shape
    if width == dim:  # nothing is left
        return np.eye(dim) / dim, np.eye(dim) / dim
    beside = add_to_diagonal(-basis @ basis.T, 1.0)
    sphere = beside / (dim - width)
    values, vectors = linalg.eigh(known)
    root = beside @ (vectors * np.maximum(values, 0.0) ** 0.25)
    shape = root @ root.T
    trace = float(np.trace(shape))
    return (shape / trace if trace > 0 else sphere), sphere
