"""A classifier in torch: a backbone, frozen or trained, under a linear head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedcof.backbones import Preprocessing
from fedcof.backbones.torch_preprocessing import Prepare
from fedcof.backbones.torch_transform import TransformLayer
from fedcof.export import linear_layer
from fedcof.heads import LinearHead
from fedcof.training.settings import Precision
from fedcof.transforms import NO_TRANSFORM


class Classifier(nn.Module):
    """A backbone and a linear head; the trained parameters are those that require a gradient.

    Parameters
    ----------
    backbone : torch.nn.Module
        ``torch.nn.Identity()`` for linear probing, whose inputs are features.
    head : LinearHead
        The start. Its transform is not trained.
    preprocessing : Preprocessing, optional
        The inputs are then batches of pixels as `Preprocessing.as_batch` makes them, which are
        prepared where the backbone runs.
    precision : {"float32", "bf16"}
        Of the products in a step: bfloat16 is faster where a GPU has units for it. Parameters, and
        what they are summed in, stay float32.
    """

    def __init__(
        self,
        backbone: nn.Module,
        head: LinearHead,
        preprocessing: Preprocessing | None = None,
        *,
        precision: Precision = "float32",
    ) -> None:
        super().__init__()
        self.prepare = nn.Identity() if preprocessing is None else Prepare(preprocessing)
        self._mixed = precision == "bf16"
        self.backbone = backbone
        self.transform = (
            nn.Identity()
            if head.transform == NO_TRANSFORM
            else TransformLayer(head.transform, head.dim)
        )
        self.head = linear_layer(head)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits (n, classes)."""
        images = self.prepare(inputs)
        if not self._mixed:
            return self._logits(images)
        with torch.autocast(images.device.type, torch.bfloat16):
            return self._logits(images).float()

    def _logits(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.transform(self.backbone(images)))
        return logits


def best_device() -> str:
    """Return where torch computes fastest here: "cuda" or "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"
