"""Random features: a fixed random layer that makes a linear head a nonlinear one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import SettingError
from fedcof.numerics import gaussian
from fedcof.settings import setting
from fedcof.transforms.base import Transform

if TYPE_CHECKING:
    from torch import Tensor

Activation = Literal["relu"]

_LARGEST = 2**28
"""Numbers in W: a gibibyte. The text of a transform may come from anybody."""


@dataclass(frozen=True)
class RandomFeatures(Transform):
    """``max(0, x W)`` with a Gaussian W that every client draws from the same seed.

    W is (inputs, dim) with variance ``2 / inputs``, so that the mean square of a feature's values
    stays what it was (He et al., 2015).

    Parameters
    ----------
    dim : int
        The length of a transformed feature.
    seed : int, default 0
        W is drawn from it, the same on every machine and with every version of NumPy, up to
        rounding.
    activation : {"relu"}, default "relu"
    inputs : int, optional
        The length of the features that it takes. Default: whatever comes; what leaves a client
        says which it was.

    Examples
    --------
    >>> RandomFeatures(3)(np.ones((2, 5))).shape
    (2, 3)
    >>> str(RandomFeatures(2048).bound(512))
    'random-features:2048:0:relu:512'
    """

    name: ClassVar[str] = "random-features"

    dim: int = setting(2048, "Length of a transformed feature.", minimum=1, maximum=2**16)
    seed: int = setting(0, "Seeds the random matrix.", minimum=0, maximum=2**63)
    activation: Activation = setting("relu", "What follows the product.")
    inputs: int | None = setting(
        None, "Length of the features that it takes.", minimum=1, maximum=2**16
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = (self.inputs or 1) * self.dim
        if numbers > _LARGEST:
            raise SettingError("inputs", f"times dim must be at most 2**28, it is {numbers:,}")

    def apply(self, features: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the rectified projections."""
        matrix = self.matrix(features.shape[1]).astype(features.dtype, copy=False)
        projected = np.asarray(features @ matrix)
        return np.maximum(projected, 0, out=projected)

    def matrix(self, inputs: int) -> NDArray[np.float32]:
        """Return W, shape (inputs, dim), for features of length `inputs`."""
        self.bound(inputs)
        return _gaussian_matrix(inputs, self.dim, self.seed)

    def constants(self, dim: int) -> dict[str, NDArray[np.float32]]:
        """Return W."""
        return {"matrix": self.matrix(dim)}

    def onnx_nodes(self, source: str, target: str) -> str:
        """Return the product and its rectification."""
        return f"""
            {target}_projected = MatMul ({source}, {target}_matrix)
            {target} = Relu ({target}_projected)
        """

    def on_tensor(self, features: Tensor, constants: Mapping[str, Tensor]) -> Tensor:
        """Return the rectified projections."""
        return (features @ constants["matrix"]).relu()

    def output_dim(self, dim: int) -> int:
        """Return the number of random features."""
        return self.dim

    def input_dim(self, dim: int) -> int:
        """Return the length of the features that it takes."""
        if self.inputs is None:
            raise SettingError("transform", f"{self} does not say the length of what it takes")
        if dim != self.dim:
            raise SettingError("transform", f"{self} gives features of that length, not of {dim}")
        return self.inputs

    def bound(self, dim: int) -> RandomFeatures:
        """Return the random features of features of length `dim`."""
        if self.inputs not in (None, dim):
            raise SettingError(
                "transform", f"{self} takes features of length {self.inputs}, these have {dim}"
            )
        return replace(self, inputs=dim)


@lru_cache(maxsize=4)
def _gaussian_matrix(inputs: int, dim: int, seed: int) -> NDArray[np.float32]:
    matrix = gaussian(seed, inputs, dim).astype(np.float32)
    matrix *= np.float32(np.sqrt(2 / inputs))
    matrix.flags.writeable = False
    return matrix
