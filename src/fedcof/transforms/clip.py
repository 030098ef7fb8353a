"""Features cut to a largest length, so that no sample weighs more than a known amount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcof.settings import setting
from fedcof.transforms.base import Transform

if TYPE_CHECKING:
    from torch import Tensor

_MARGIN = 1 - 2.0**-20
"""A clipped feature is shorter than the radius by this factor, so that rounding its values to
float32, which changes its length by less than ``2**-22``, never makes it longer."""


@dataclass(frozen=True)
class Clip(Transform):
    """``x min(1, radius / |x|)``, with the Euclidean length of a sample's feature.

    No transformed feature is longer than the radius, in exact arithmetic on the values as they are
    stored: what differential privacy needs to know. It stands last in a chain.

    Examples
    --------
    >>> Clip(5.0)([[30.0, 40.0], [0.6, 0.8]]).round(3)
    array([[3. , 4. ],
           [0.6, 0.8]])
    """

    name: ClassVar[str] = "clip"

    radius: float = setting(1.0, "The largest Euclidean length of a feature.", above=0)

    def apply(self, features: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the features, those that are too long at the length of the radius."""
        # The largest value becomes 1, so that no square overflows.
        largest = np.abs(features).max(axis=1, keepdims=True, initial=0.0).astype(np.float64)
        safe = np.where(largest > 0, largest, 1.0)
        length = np.linalg.norm(features / safe, axis=1, keepdims=True) * safe
        limit = self.radius * _MARGIN
        clipped = features * (limit / np.maximum(length, limit))
        return np.asarray(clipped.astype(features.dtype))

    def onnx_nodes(self, source: str, target: str) -> str:
        """Return the product with the lesser of 1 and the radius over the length."""
        return f"""
            {target}_axes = Constant <value = int64[1] {{1}}> ()
            {target}_limit = Constant <value = float {{{self.radius * _MARGIN}}}> ()
            {target}_squares = Mul ({source}, {source})
            {target}_square = ReduceSum <keepdims = 1> ({target}_squares, {target}_axes)
            {target}_length = Sqrt ({target}_square)
            {target}_divisor = Max ({target}_length, {target}_limit)
            {target}_factor = Div ({target}_limit, {target}_divisor)
            {target} = Mul ({source}, {target}_factor)
        """

    def on_tensor(self, features: Tensor, constants: Mapping[str, Tensor]) -> Tensor:
        """Return the features, those that are too long at the length of the radius."""
        limit = self.radius * _MARGIN
        length: Tensor = features.norm(dim=1, keepdim=True)
        clipped: Tensor = features * (limit / length.clamp(min=limit))
        return clipped
