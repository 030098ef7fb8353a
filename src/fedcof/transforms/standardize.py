"""Every sample by its own mean and deviation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcof.transforms.base import Transform


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
        # What is left of equal values is rounding.
        rounding = 4 * np.finfo(features.dtype).eps * np.abs(mean)
        scaled /= np.where(deviation > rounding, deviation, np.inf)
        return scaled
