"""Preprocessing as the first layer of a network in torch: it runs where the network does."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedcof.backbones.onnx_preprocessing import resize_weights
from fedcof.backbones.preprocessing import Preprocessing


class Prepare(nn.Module):
    """From a batch as `Preprocessing.as_batch` makes it to a network's input.

    Equal to `Preprocessing.__call__` bit for bit, as its twin is, the graph of
    `fedcof.backbones.onnx_preprocessing.preprocessing_graph`. Nothing of it is in a
    state.

    Parameters
    ----------
    preprocessing : Preprocessing
    """

    def __init__(self, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.preprocessing = preprocessing
        self._add_constant("mean", np.array(preprocessing.mean))
        self._add_constant("inverse_scale", 1 / np.array(preprocessing.scale))
        self._weights: dict[tuple[int, torch.device], Tensor] = {}

    def forward(self, images: Tensor) -> Tensor:
        """Return float32 (n, 3, size, size), channels last, of uint8 (n, height, width, 3)."""
        planes = images.permute(0, 3, 1, 2)
        if self.preprocessing.color_order == "BGR":
            planes = planes.flip(1)
        if planes.shape[2:] == (self.preprocessing.size,) * 2:
            return self._normal(planes.float())
        _, _, height, width = planes.shape
        wide = _whole(planes.double() @ self._weights_of(width, planes.device).mT)
        square = _whole(self._weights_of(height, planes.device) @ wide).float()
        return self._normal(square.contiguous(memory_format=torch.channels_last))

    def _normal(self, planes: Tensor) -> Tensor:
        return (planes - self.get_buffer("mean")) * self.get_buffer("inverse_scale")

    def _weights_of(self, length: int, device: torch.device) -> Tensor:
        """Return the weights of a resize; they are copied to the device once."""
        key = length, device
        if key not in self._weights:
            weights = resize_weights(self.preprocessing, length)
            self._weights[key] = torch.from_numpy(weights).to(device)
        return self._weights[key]

    def _add_constant(self, name: str, value: NDArray[np.float64]) -> None:
        constant = torch.from_numpy(value.astype(np.float32)[:, None, None])
        self.register_buffer(name, constant, persistent=False)


def _whole(sums: Tensor) -> Tensor:
    """Return the nearest levels, as Pillow rounds: half a level goes up."""
    return (sums + 0.5).floor_().clamp_(0, 255)
