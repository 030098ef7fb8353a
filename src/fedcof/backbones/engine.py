"""What runs a frozen network on batches of pixels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcof.backbones.preprocessing import ImageArray

Device = Literal["auto", "cpu", "cuda"]
Features: TypeAlias = NDArray[np.float32]


class Engine(Protocol):
    """A network and its preprocessing on a device.

    Attributes
    ----------
    dim : int
        Length of a feature.
    batch_size : int
        Images that the device takes at a time.
    """

    dim: int
    batch_size: int

    def infer(self, tensor: NDArray[np.float32]) -> Features:
        """Return the features (n, dim) of prepared images (n, 3, size, size)."""

    def stream(self, batches: Iterable[ImageArray]) -> Iterator[Features]:
        """Yield the features (n, dim) of batches as `Preprocessing.as_batch` makes them.

        They have at most `batch_size` images.
        """
