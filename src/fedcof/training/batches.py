"""Images as the batches that a network in torch takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcof.backbones import Preprocessing
from fedcof.data import ImageSource
from fedcof.data.decoded import DecodedImages


class Inputs(Protocol):
    """Samples that come in batches: a tensor, or images."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def __getitem__(self, rows: NDArray[np.int64], /) -> Tensor:
        """Return a batch."""


class Images:
    """Images as batches of pixels, decoded once; `Prepare` makes of them what a network takes.

    Parameters
    ----------
    sources : sequence of paths, encoded images (bytes) or pixel arrays
    preprocessing : Preprocessing
    advance : callable
        Called with the number of images decoded since the last call.

    Raises
    ------
    UnreadableImageError
        When a batch is taken with an image that cannot be read; it is named.
    """

    def __init__(
        self,
        sources: Sequence[ImageSource] | NDArray[np.uint8],
        preprocessing: Preprocessing,
        *,
        advance: Callable[[int], None] = lambda steps: None,
    ) -> None:
        self._decoded = DecodedImages(sources, preprocessing, advance=advance)
        self._rows = np.arange(len(sources))

    @property
    def faults(self) -> dict[int, str]:
        """The rows of those that cannot be read, and why."""
        found = self._decoded.faults
        return {i: found[row] for i, row in enumerate(self._rows.tolist()) if row in found}

    def subset(self, rows: NDArray[np.int64]) -> Images:
        """Return the images of these rows, in this order; nothing is decoded again."""
        part = object.__new__(Images)
        part._decoded, part._rows = self._decoded, self._rows[rows]
        return part

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: NDArray[np.int64]) -> Tensor:
        """Return a (batch, height, width, 3) uint8 tensor."""
        return torch.from_numpy(self._decoded[self._rows[rows]])
