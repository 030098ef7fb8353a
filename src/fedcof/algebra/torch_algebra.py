"""Products on a device of torch, all in float64."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class TorchAlgebra:
    """Products on a device, in float64: what TF32 rounds is float32 alone.

    Parameters
    ----------
    device : str
        As torch names it.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)

    def outer_products(
        self, blocks: Iterable[NDArray[Any]], dim: int, dtype: np.dtype[Any]
    ) -> NDArray[np.float64]:
        """See `fedcof.algebra.Algebra`."""
        products = self._zeros(dim, dim)
        for block in blocks:
            rows = self._moved(block)
            products.addmm_(rows.T, rows)
        return _on_host(products)

    def centred_products(
        self,
        blocks: Iterable[tuple[NDArray[Any], NDArray[np.integer[Any]], NDArray[Any]]],
        centres: NDArray[Any],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `fedcof.algebra.Algebra`."""
        num_groups, dim = centres.shape
        sums, products = self._zeros(num_groups, dim), self._zeros(dim, dim)
        moved_centres = self._moved(centres)
        for block, group_index, scales in blocks:
            groups = _tensor(group_index).to(self._device)
            weights = self._moved(scales)[:, None]
            rows = (self._moved(block) - moved_centres[groups]) * weights
            # On CUDA this sorts the groups, so that a sum does not depend on who comes first.
            sums.index_put_((groups,), rows * weights, accumulate=True)
            products.addmm_(rows.T, rows)
        return _on_host(sums), _on_host(products)

    def solve_definite(
        self, matrix: NDArray[np.float64], rows: NDArray[np.float64], smallest: float
    ) -> NDArray[np.float64] | None:
        """See `fedcof.algebra.Algebra`."""
        moved = self._moved(matrix)
        factor, failed = torch.linalg.cholesky_ex(moved)
        if failed:
            return None
        inverse = torch.cholesky_inverse(factor)
        condition = torch.linalg.matrix_norm(moved, 1) * torch.linalg.matrix_norm(inverse, 1)
        if not 1 / condition >= smallest:
            return None
        return _on_host(torch.cholesky_solve(self._moved(rows).T, factor).T)

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self._device)

    def _moved(self, array: NDArray[Any]) -> Tensor:
        """Return an array on the device in float64; it is moved in its own type."""
        return _tensor(array).to(self._device).to(torch.float64)


def _tensor(array: NDArray[Any]) -> Tensor:
    """Return an array as a tensor; torch takes none that lies in the bytes of a message."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def _on_host(tensor: Tensor) -> NDArray[np.float64]:
    return np.asarray(tensor.cpu().numpy())
