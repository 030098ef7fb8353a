"""A transform of features as a layer of torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedcof.transforms import Transform


class TransformLayer(nn.Module):
    """What a transform does to features, in float32; nothing of it is trained.

    Parameters
    ----------
    transform : Transform
    dim : int
        The length of a feature before it.
    """

    def __init__(self, transform: Transform, dim: int) -> None:
        super().__init__()
        self.transform = transform
        # Not in the state, which is what is trained and sent.
        for name, value in transform.constants(dim).items():
            self.register_buffer(name, torch.tensor(value), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """Return transformed features (n, output_dim(dim))."""
        return self.transform.on_tensor(features, dict(self.named_buffers()))
