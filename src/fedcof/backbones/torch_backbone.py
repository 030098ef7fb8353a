"""Backbones in torch, which can be trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fedcof.backbones.fingerprint import origin_of
from fedcof.backbones.preprocessing import Preprocessing
from fedcof.backbones.resolver import resolve, sources
from fedcof.backbones.sources import ResolvedBackbone
from fedcof.errors import BackboneError

_SQUEEZENET = "squeezenet1.1"


@dataclass(frozen=True, eq=False)
class TorchBackbone:
    """A network from prepared images to features, and how images are prepared for it.

    Parameters
    ----------
    module : torch.nn.Module
        From float32 images (n, 3, size, size) to features (n, dim).
    dim : int
    preprocessing : Preprocessing
    fingerprint : str
        That of the same backbone on ONNX Runtime, and of the module before it is trained.
    """

    module: nn.Module
    dim: int
    preprocessing: Preprocessing
    fingerprint: str

    @property
    def origin(self) -> dict[str, str]:
        """What summaries and heads say of features that this backbone made."""
        return origin_of(self.fingerprint)


def network(
    name: str,
    *,
    preprocessing: Mapping[str, Any] | None = None,
    pretrained: bool = True,
    seed: int = 0,
) -> TorchBackbone:
    """Return a backbone that can be trained, with the weights that `fedcof.backbones.get` takes.

    Parameters
    ----------
    name, preprocessing
        As `fedcof.backbones.get` takes them. ``{"size": 96}`` gives images of fewer pixels, which
        are faster and worse; a ViT takes the size of its weights alone.
    pretrained : bool, default True
        False, for SqueezeNet only, draws random weights.
    seed : int, default 0
        Draws them.

    Raises
    ------
    NoWeightsError
        If there are no such weights.
    BackboneError
        If they are an ONNX model, which cannot be trained, or of another network, or if it takes
        no images of this size.
    ValueError
        If the name is unknown, or random weights are asked for another network.
    """
    resolved = _trainable(name) if pretrained else _random(name, seed)
    resolved = resolved.prepared(preprocessing or {})
    module = resolved.module()
    size = resolved.preprocessing.size
    try:
        with torch.no_grad():
            dim = module(torch.zeros(1, 3, size, size)).shape[1]
    except (ValueError, RuntimeError) as error:
        raise BackboneError(
            f"{resolved.source} takes no images of {size} x {size} pixels: {error}"
        ) from error
    return TorchBackbone(module, dim, resolved.preprocessing, resolved.fingerprint)


def _trainable(name: str) -> ResolvedBackbone:
    """Resolve a name; if the weights found cannot be trained, the error lists those that can."""
    resolved = resolve(name)
    if resolved.build is None:
        others = [place.wanted for place in sources(name) if place.trainable]
        remedy = (
            "move it out of the folder for weights, and the first of these is taken instead:"
            + "".join(f"\n- {wanted}" for wanted in others)
            if others
            else "give weights in the format of torch: a name of `fedcof backbones list`, or a "
            "folder or model id of transformers"
        )
        raise BackboneError(
            f"{resolved.source} cannot be trained: an ONNX model only computes features. To train, "
            f"{remedy}"
        )
    return resolved


def _random(name: str, seed: int) -> ResolvedBackbone:
    if name != _SQUEEZENET:
        raise ValueError(f"random weights are for {_SQUEEZENET}, not for {name}")
    from fedcof.backbones.torch_squeezenet import random

    return random(seed)
