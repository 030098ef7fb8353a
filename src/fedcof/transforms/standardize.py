"""Every sample by its own mean and deviation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcof.transforms.base import Transform

if TYPE_CHECKING:
    from torch import Tensor

_ROUNDING = 64
"""Deviations below so many units of rounding of the mean are those of equal values."""


@dataclass(frozen=True)
class Standardize(Transform):
    """``(x - mean(x)) / std(x)``, over the values of a sample, as layer normalisation does.

    It takes away how bright or how clear an image is as a whole. A sample whose values are all
    equal becomes zeros.

    Examples
    --------
    >>> Standardize()([[1.0, 3.0], [5.0, 5.0]])
    array([[-1.,  1.],
           [ 0.,  0.]])
    """

    name: ClassVar[str] = "standardize"

    def apply(self, features: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the values less their mean over their deviation."""
        # The largest value becomes 1, so that no square overflows.
        largest = np.abs(features).max(axis=1, keepdims=True)
        scaled = features / np.where(largest > 0, largest, 1)
        mean = scaled.mean(axis=1, keepdims=True)
        scaled -= mean
        deviation = np.sqrt(np.square(scaled).mean(axis=1, keepdims=True))
        rounding = _ROUNDING * np.finfo(features.dtype).eps * np.abs(mean)
        scaled /= np.where(deviation > rounding, deviation, np.inf)
        return scaled

    def constants(self, dim: int) -> dict[str, NDArray[np.float32]]:
        """Return the weights of the mean, and the divisor of equal values."""
        average = np.full((dim, 1), 1 / dim, dtype=np.float32)
        return {"average": average, "infinity": np.array(np.inf, dtype=np.float32)}

    def onnx_nodes(self, source: str, target: str) -> str:
        """Return the same without the scaling: squares above the largest float32 are infinite."""
        rounding = _ROUNDING * float(np.finfo(np.float32).eps)
        return f"""
            {target}_mean = MatMul ({source}, {target}_average)
            {target}_centred = Sub ({source}, {target}_mean)
            {target}_square = Mul ({target}_centred, {target}_centred)
            {target}_variance = MatMul ({target}_square, {target}_average)
            {target}_deviation = Sqrt ({target}_variance)
            {target}_size = Abs ({target}_mean)
            {target}_unit = Constant <value = float {{{rounding}}}> ()
            {target}_rounding = Mul ({target}_size, {target}_unit)
            {target}_differ = Greater ({target}_deviation, {target}_rounding)
            {target}_divisor = Where ({target}_differ, {target}_deviation, {target}_infinity)
            {target} = Div ({target}_centred, {target}_divisor)
        """

    def on_tensor(self, features: Tensor, constants: Mapping[str, Tensor]) -> Tensor:
        """Return the values less their mean over their deviation."""
        mean = features @ constants["average"]
        centred = features - mean
        deviation = (centred.square() @ constants["average"]).sqrt()
        rounding = _ROUNDING * float(np.finfo(np.float32).eps) * mean.abs()
        return centred / deviation.where(deviation > rounding, constants["infinity"])
