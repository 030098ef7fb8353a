"""A classifier in torch: a backbone, frozen or trained, under a linear head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedcof.backbones.torch_transform import TransformLayer
from fedcof.export import linear_layer
from fedcof.heads import LinearHead
from fedcof.transforms import NO_TRANSFORM


class Classifier(nn.Module):
    """A backbone and a linear head; the trained parameters are those that require a gradient.

    Parameters
    ----------
    backbone : torch.nn.Module
        ``torch.nn.Identity()`` for linear probing, whose inputs are features.
    head : LinearHead
        The start. Its transform is not trained.
    """

    def __init__(self, backbone: nn.Module, head: LinearHead) -> None:
        super().__init__()
        self.backbone = backbone
        self.transform = (
            nn.Identity()
            if head.transform == NO_TRANSFORM
            else TransformLayer(head.transform, head.dim)
        )
        self.head = linear_layer(head)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits (n, classes)."""
        logits: Tensor = self.head(self.transform(self.backbone(inputs)))
        return logits


def best_device() -> str:
    """Return where torch computes fastest here: "cuda" or "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"
