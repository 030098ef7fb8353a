"""The signed power, which brings large values nearer to the others."""

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

_SMALLEST = 1e-12
"""Where a network below the transform is trained, smaller values give it no gradient."""


@dataclass(frozen=True)
class PowerTransform(Transform):
    """``sign(x) |x|^power``, value by value.

    Averages of rectified activations are skewed: the root makes them nearer to a Gaussian, which
    the closed-form heads take them for.

    Parameters
    ----------
    power : float, default 0.5
        0.5 is the signed square root.

    Examples
    --------
    >>> PowerTransform()([[4.0, -9.0]])
    array([[ 2., -3.]])
    """

    name: ClassVar[str] = "power"

    power: float = setting(0.5, "The exponent.", above=0, maximum=1)

    def apply(self, features: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the powers with the signs of the values."""
        size = np.abs(features)
        powers = np.sqrt(size, out=size) if self.power == 0.5 else np.power(size, self.power)
        return np.asarray(np.copysign(powers, features))

    def onnx_nodes(self, source: str, target: str) -> str:
        """Return the sign times the power of the size."""
        return f"""
            {target}_exponent = Constant <value = float {{{self.power}}}> ()
            {target}_size = Abs ({source})
            {target}_power = Pow ({target}_size, {target}_exponent)
            {target}_sign = Sign ({source})
            {target} = Mul ({target}_sign, {target}_power)
        """

    def on_tensor(self, features: Tensor, constants: Mapping[str, Tensor]) -> Tensor:
        """Return the sign times the power of the size, whose slope at 0 is 0 and not infinite."""
        return features.sign() * features.abs().clamp(min=_SMALLEST) ** self.power
