"""Backbones that can be trained: networks in torch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from fedcof.backbones import torch_networks
from fedcof.backbones.preprocessing import Preprocessing
from fedcof.backbones.registry import BACKBONES
from fedcof.backbones.sources import weights_folder
from fedcof.backbones.squeezenet1_1 import PREPROCESSING, read_weights, weights_path
from fedcof.backbones.torch_squeezenet import SqueezeNet
from fedcof.errors import NoWeightsError


@dataclass(frozen=True, eq=False)
class TorchBackbone:
    """A network from prepared images to features, and what it wants of an image.

    Parameters
    ----------
    module : torch.nn.Module
        From float32 images (n, 3, size, size) to features (n, dim).
    dim : int
    preprocessing : Preprocessing
    """

    module: nn.Module
    dim: int
    preprocessing: Preprocessing

    def fingerprint(self) -> str:
        """Return what tells it from one with other weights or another preprocessing."""
        told = f"{self.preprocessing} {torch_networks.state_digest(self.module)}"
        return hashlib.sha256(told.encode()).hexdigest()


def squeezenet(*, pretrained: bool = True, size: int = 224, seed: int = 0) -> TorchBackbone:
    """Return SqueezeNet 1.1, with its ImageNet weights or random ones.

    Parameters
    ----------
    pretrained : bool, default True
    size : int, default 224
        Height and width of the images. The network takes any; fewer pixels are faster and worse.
    seed : int, default 0
        Draws the random weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = SqueezeNet()
    if pretrained:
        module.load_weights(read_weights(weights_path().read_bytes()))
    preprocessing = Preprocessing(
        size=size,
        resampling=PREPROCESSING.resampling,
        color_order=PREPROCESSING.color_order,
        mean=PREPROCESSING.mean,
        # Random weights, as torch draws them, expect pixels of variance 1.
        scale=PREPROCESSING.scale if pretrained else (64.0, 64.0, 64.0),
    )
    return TorchBackbone(module, 512, preprocessing)


def network(name: str, *, size: int = 224, pretrained: bool = True, seed: int = 0) -> TorchBackbone:
    """Return a backbone that can be trained.

    Parameters
    ----------
    name : str
        "squeezenet1.1"; another key of `fedcof.backbones.BACKBONES`, whose weights are looked for
        as ``NAME.pth`` and as a folder ``NAME`` of transformers in the folder for weights, then on
        the Hugging Face hub; or a folder or model id of transformers.
    size : int, default 224
        Height and width of SqueezeNet's images. It takes any; fewer pixels are faster and worse.
    pretrained : bool, default True
        False, for SqueezeNet only, draws random weights.
    seed : int, default 0
        Draws them.

    Raises
    ------
    NoWeightsError
        If there are no such weights.
    BackboneError
        If they are of another network.
    ValueError
        If random weights are asked for another network.
    """
    if name == "squeezenet1.1":
        return squeezenet(size=size, pretrained=pretrained, seed=seed)
    if not pretrained:
        raise ValueError(f"random weights are for squeezenet1.1, not for {name}")
    checkpoint, folder = weights_folder() / f"{name}.pth", weights_folder() / name
    if name in torch_networks.CHECKPOINTS and checkpoint.is_file():
        module = torch_networks.CHECKPOINTS[name](torch_networks.read_checkpoint(checkpoint))
        return _measured(module, BACKBONES[name].preprocessing)
    model_id = BACKBONES[name].transformers if name in BACKBONES else name
    if folder.is_dir():
        return from_transformers(folder)
    if model_id is None:
        raise NoWeightsError(f"no weights of {name}: expected {checkpoint} or {folder}")
    return from_transformers(model_id)


def from_transformers(source: str | Path) -> TorchBackbone:
    """Return a ViT, ResNet or MobileNetV2 in the format of transformers.

    Parameters
    ----------
    source : str or path
        A folder with ``config.json``, weights and ``preprocessor_config.json``, or a model id of
        the Hugging Face hub, such as ``"microsoft/resnet-18"``.

    Raises
    ------
    NoWeightsError
        If there is no such model, here or on the hub.
    BackboneError
        If it is of another kind.
    """
    try:
        folder = torch_networks.transformers_folder(str(source))
    except OSError as error:
        reason = str(error).splitlines()[0]
        raise NoWeightsError(f"no model of transformers at {source}: {reason}") from None
    preprocessing = torch_networks.transformers_preprocessing(folder)
    return _measured(torch_networks.from_transformers(folder), preprocessing)


@torch.no_grad()
def _measured(module: nn.Module, preprocessing: Preprocessing) -> TorchBackbone:
    blank = torch.zeros(1, 3, preprocessing.size, preprocessing.size)
    return TorchBackbone(module, module.eval()(blank).shape[1], preprocessing)
