"""Prompt tuning of a ViT: trained tokens from a pool before the patches, all else frozen."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from fedcof.backbones.torch_backbone import TorchBackbone


class PromptedViT(nn.Module):
    """A frozen ViT that sees some prompts of a trained pool before the patches of an image.

    The prompts stand in the first layer only, as in shallow visual prompt tuning [1]_. They are
    selected for a batch as in [2]_ and [3]_: each image votes for the prompts of the highest cosine
    with its feature without prompts, and the batch gets those with the most votes. So a feature
    depends on the other images of its batch, and a prompt that no batch of a client selects stays
    as it was.

    Not taken from [3]_ are a trained projection of the feature, whose ``dim ** 2`` numbers the
    paper's formula does not count, and a term of the loss that is the cosine times 0.01.

    Parameters
    ----------
    backbone : TorchBackbone
        A ViT in the format of transformers.
    pool_size : int, default 20
        Number of prompts, the paper's P.
    selected : int, default 10
        How many of them a batch gets; all where the pool has no more.
    seed : int, default 0
        Draws the prompts, from the distribution that the ViT's weights were drawn from.

    References
    ----------
    .. [1] Jia et al., "Visual Prompt Tuning", 2022.
    .. [2] Wang et al., "Learning to Prompt for Continual Learning", 2022.
    .. [3] https://github.com/hangpt01/Probabilistic_Prompt_Tuning, ``Models``: the code of PFPT.
    """

    def __init__(
        self, backbone: TorchBackbone, *, pool_size: int = 20, selected: int = 10, seed: int = 0
    ) -> None:
        super().__init__()
        vit: Any = backbone.module
        config = getattr(getattr(vit, "model", None), "config", None)
        if getattr(config, "model_type", None) != "vit":
            raise ValueError("prompts need a ViT; this backbone has no patch tokens")
        self.vit = vit
        self.vit.requires_grad_(False)
        self.selected = selected
        draws = np.random.default_rng(seed).normal(
            scale=vit.model.config.initializer_range, size=(pool_size, backbone.dim)
        )
        self.prompts = nn.Parameter(torch.tensor(draws, dtype=torch.float32))

    def forward(self, images: Tensor) -> Tensor:
        """Return the features (n, dim) of the class token."""
        prompts: Tensor = self.prompts
        if len(prompts) > self.selected:
            prompts = prompts[self.select(images)]

        def insert(_module: nn.Module, _inputs: Any, tokens: Tensor) -> Tensor:
            return torch.cat(
                [tokens[:, :1], prompts.expand(len(tokens), -1, -1), tokens[:, 1:]], dim=1
            )

        hook = self.vit.model.embeddings.register_forward_hook(insert)
        try:
            features: Tensor = self.vit(images)
        finally:
            hook.remove()
        return features

    @torch.no_grad()
    def select(self, images: Tensor) -> Tensor:
        """Return the numbers of the prompts that a batch gets; of equal votes, the first."""
        cosines = normalize(self.vit(images)) @ normalize(self.prompts).T
        votes = torch.bincount(
            cosines.topk(self.selected).indices.flatten(), minlength=len(self.prompts)
        )
        return votes.argsort(descending=True, stable=True)[: self.selected]
