"""Images as the batches that a network in torch takes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcof.backbones import Preprocessing
from fedcof.data import ImageSource, read_image


class Images:
    """Images as the batches of a backbone, read and prepared when they are needed.

    Parameters
    ----------
    sources : sequence of paths, encoded images (bytes) or pixel arrays
    preprocessing : Preprocessing
    """

    def __init__(
        self, sources: Sequence[ImageSource] | NDArray[np.uint8], preprocessing: Preprocessing
    ) -> None:
        self._sources = sources
        self._preprocessing = preprocessing

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, rows: NDArray[np.int64]) -> Tensor:
        """Return a (batch, 3, size, size) float32 tensor."""
        with ThreadPoolExecutor(joblib.cpu_count()) as pool:
            prepared = list(pool.map(self._prepare, rows.tolist()))
        return torch.from_numpy(np.stack(prepared))

    def _prepare(self, row: int) -> NDArray[np.float32]:
        return self._preprocessing(read_image(self._sources[row]))
