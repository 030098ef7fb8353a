"""Products on the CPU, by NumPy, SciPy and BLAS."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

_CENTRING_BYTES = 512 << 10
"""Bytes of rows that are centred at a time, so that they and their centres stay in the cache."""


class Host:
    """Products in the data type of the rows, accumulated in float64."""

    def outer_products(
        self, blocks: Iterable[NDArray[Any]], dim: int, dtype: np.dtype[Any]
    ) -> NDArray[np.float64]:
        """See `fedcof.algebra.Algebra`."""
        product = linalg.get_blas_funcs("syrk", dtype=dtype)
        products = np.zeros((dim, dim), order="F")  # the layout of BLAS
        for block in blocks:
            products += product(1.0, block.T)
        return products

    def centred_products(
        self,
        blocks: Iterable[tuple[NDArray[Any], NDArray[np.integer[Any]], NDArray[Any]]],
        centres: NDArray[Any],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `fedcof.algebra.Algebra`."""
        num_groups, dim = centres.shape
        product = linalg.get_blas_funcs("syrk", dtype=centres.dtype)
        products = np.zeros((dim, dim), order="F")
        sums = np.zeros((num_groups, dim))
        about_zero = not centres.any()
        for rows, group_index, scales in blocks:
            if about_zero:
                np.multiply(rows, scales[:, None], out=rows)
            else:
                _centre(rows, centres, group_index, scales)
            sums += sum_block(rows, scales, group_index, num_groups)
            products += product(1.0, rows.T)
        return sums, products

    def solve_definite(
        self, matrix: NDArray[np.float64], rows: NDArray[np.float64], smallest: float
    ) -> NDArray[np.float64] | None:
        """See `fedcof.algebra.Algebra`."""
        try:
            factor, lower = linalg.cho_factor(matrix, lower=True)
        except linalg.LinAlgError:
            return None
        norm = float(np.abs(matrix).sum(axis=0).max())
        reciprocal_condition, _ = linalg.lapack.dpocon(factor, norm, uplo="L")
        if reciprocal_condition < smallest:
            return None
        return np.asarray(linalg.cho_solve((factor, lower), rows.T).T)


def sum_block(
    rows: NDArray[np.floating[Any]],
    weights: NDArray[np.floating[Any]],
    group_index: NDArray[np.integer[Any]],
    num_groups: int,
) -> NDArray[np.floating[Any]]:
    """Return the weighted sum of the rows in every group, in the rows' data type."""
    entries = (weights, group_index, np.arange(len(rows) + 1))
    return np.asarray(sparse.csc_array(entries, shape=(num_groups, len(rows))) @ rows)


def _centre(
    rows: NDArray[Any],
    centres: NDArray[Any],
    group_index: NDArray[np.integer[Any]],
    scales: NDArray[Any],
) -> None:
    """Subtract its group's centre from every row and multiply by the row's scale, in place."""
    step = max(1, _CENTRING_BYTES // (rows.itemsize * rows.shape[1]))
    for start in range(0, len(rows), step):
        piece = slice(start, start + step)
        rows[piece] -= centres.take(group_index[piece], axis=0)
        rows[piece] *= scales[piece, None]
