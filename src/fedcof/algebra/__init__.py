"""The products in which closed-form solutions spend their time, and what computes them.

NumPy and SciPy do, unless `computed_by` names another engine for a while. The rest of a solution
costs little beside them and stays in NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fedcof.algebra.host import Host
from fedcof.installation import install_line

Engine = Literal["cpu", "cuda"]


class Algebra(Protocol):
    """What computes the products. Blocks are rows that it may change, valid until the next one."""

    def outer_products(
        self, blocks: Iterable[NDArray[Any]], dim: int, dtype: np.dtype[Any]
    ) -> NDArray[np.float64]:
        """Return the sum of the outer products of all rows, in float64; its upper triangle counts.

        Parameters
        ----------
        blocks : iterable of ndarray, each of shape (rows, dim)
        dim : int
        dtype : data type
            Of the blocks. The products are at least as exact.
        """

    def centred_products(
        self,
        blocks: Iterable[tuple[NDArray[Any], NDArray[np.integer[Any]], NDArray[Any]]],
        centres: NDArray[Any],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Centre rows and scale them; return sums by group, and the sum of outer products.

        Parameters
        ----------
        blocks : iterable of (rows, group_index, scales)
            Of shapes (rows, dim), (rows,), (rows,); rows and scales are of the centres' type.
        centres : ndarray, shape (groups, dim)

        Returns
        -------
        sums : ndarray of float64, shape (groups, dim)
            Of ``scale^2 (x - centre)``.
        products : ndarray of float64, shape (dim, dim)
            The sum of ``scale^2 (x - centre)(x - centre)^T``; its upper triangle counts.
        """

    def solve_definite(
        self, matrix: NDArray[np.float64], rows: NDArray[np.float64], smallest: float
    ) -> NDArray[np.float64] | None:
        """Return ``rows @ matrix^-1`` by Cholesky, in float64.

        None if the matrix is not positive definite, or one over its condition number is below
        `smallest`.
        """


_HOST = Host()
_CURRENT: ContextVar[Algebra] = ContextVar("algebra", default=_HOST)


def current() -> Algebra:
    """Return what computes the products here and now."""
    return _CURRENT.get()


@contextmanager
def computed_by(algebra: Algebra) -> Iterator[None]:
    """Let this compute the products of what is solved in the block, in this thread."""
    token = _CURRENT.set(algebra)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def algebra_of(engine: Engine) -> Algebra:
    """Return the algebra of an engine.

    Parameters
    ----------
    engine : {"cpu", "cuda"}
        NumPy and SciPy, or torch on CUDA.

    Raises
    ------
    ValueError
        If there is no such engine, or torch is not installed, or sees no CUDA.
    """
    if engine == "cpu":
        return _HOST
    if engine != "cuda":
        raise ValueError(f"engine is cpu or cuda, not {engine!r}")
    try:
        import torch
    except ImportError:
        raise ValueError(f"engine cuda needs torch: {install_line('torch')}") from None
    if not torch.cuda.is_available():
        raise ValueError("engine cuda: torch sees no CUDA here; the engine cpu gives the same head")
    from fedcof.algebra.torch_algebra import TorchAlgebra

    return TorchAlgebra("cuda")
