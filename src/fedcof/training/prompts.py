"""Prompt tuning of a ViT: a pool of trained tokens before the patches, all else frozen."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedcof.training.models import TorchBackbone


class PromptedViT(nn.Module):
    """A frozen ViT whose patch tokens come after a pool of trained prompts [1]_.

    Parameters
    ----------
    backbone : TorchBackbone
        A ViT, from `from_transformers`.
    pool_size : int, default 20
        Number of prompts, the paper's P.
    seed : int, default 0
        Draws the prompts, from the law that the ViT's own weights were drawn from.

    References
    ----------
    .. [1] Jia et al., "Visual Prompt Tuning", 2022: the shallow variant.
    """

    def __init__(self, backbone: TorchBackbone, *, pool_size: int = 20, seed: int = 0) -> None:
        super().__init__()
        vit: Any = backbone.module
        config = getattr(getattr(vit, "model", None), "config", None)
        if getattr(config, "model_type", None) != "vit":
            raise ValueError("prompts need a ViT; this backbone has no patch tokens")
        self.vit = vit
        self.vit.requires_grad_(False)
        draws = np.random.default_rng(seed).normal(
            scale=vit.model.config.initializer_range, size=(pool_size, backbone.dim)
        )
        self.prompts = nn.Parameter(torch.tensor(draws, dtype=torch.float32))
        self.vit.model.embeddings.register_forward_hook(self._insert)

    def _insert(self, _module: nn.Module, _inputs: Any, tokens: Tensor) -> Tensor:
        prompts = self.prompts.expand(len(tokens), -1, -1)
        return torch.cat([tokens[:, :1], prompts, tokens[:, 1:]], dim=1)

    def forward(self, images: Tensor) -> Tensor:
        """Return the feature (n, dim) of the class token."""
        features: Tensor = self.vit(images)
        return features
