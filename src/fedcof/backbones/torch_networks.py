"""The networks of torch that serve as backbones, up to their features."""

import hashlib
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedcof.backbones.preprocessing import Preprocessing
from fedcof.errors import BackboneError

State = Mapping[str, Tensor]


class Pooled(nn.Module):
    """A model of transformers that gives one feature an image.

    Parameters
    ----------
    model : transformers.PreTrainedModel
    first_token : bool
        Whether the feature is a ViT's class token rather than the average over positions.
    """

    def __init__(self, model: nn.Module, *, first_token: bool) -> None:
        super().__init__()
        self.model = model
        self.first_token = first_token

    def forward(self, images: Tensor) -> Tensor:
        """Return the features (n, dim) of images (n, 3, size, size)."""
        output = self.model(pixel_values=images)
        feature: Tensor = (
            output.last_hidden_state[:, 0] if self.first_token else output.pooler_output
        )
        return feature.flatten(1)


def read_checkpoint(path: Path) -> State:
    """Read the tensors of a checkpoint of torch, or a safetensors file; nothing in it is run.

    Raises
    ------
    BackboneError
        If it is no file of tensors.
    """
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            tensors: State = load_file(path)
        except SafetensorError as error:
            raise BackboneError(f"{path} is no safetensors file: {error}") from error
        return tensors
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever it meets in a damaged file
        raise BackboneError(f"{path} is no torch checkpoint of tensors alone: {error}") from error
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    if not isinstance(state, Mapping) or not all(isinstance(t, Tensor) for t in state.values()):
        raise BackboneError(f"{path} is no state_dict: expected a mapping of names to tensors")
    return state


def squeezenet1_1(state: State) -> nn.Module:
    """Return SqueezeNet 1.1 with weights of torchvision's names [1]_; a classifier is left out.

    References
    ----------
    .. [1] Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and <0.5MB
       model size", 2016.
    """
    from fedcof.backbones.torch_squeezenet import SqueezeNet

    places = {"features.0": "conv1"}
    places |= {f"features.{n}": f"fire{i}" for i, n in enumerate((3, 4, 6, 7, 9, 10, 11, 12), 2)}
    renamed = {}
    for name, tensor in state.items():
        if not name.startswith("classifier."):
            place = ".".join(name.split(".")[:2])
            layer = name[len(place) :].replace(".squeeze.", ".squeeze1x1.")
            renamed[places.get(place, place) + layer] = tensor
    return _fill(SqueezeNet(), renamed)


def mobilenet_v2(state: State) -> nn.Module:
    """Return MobileNetV2 with weights in torchvision's order [1]_; a classifier is left out.

    References
    ----------
    .. [1] Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018.
    """
    from transformers import MobileNetV2Config, MobileNetV2Model

    # torchvision pads and normalises in this way; the defaults are those of TensorFlow.
    model = MobileNetV2Model(MobileNetV2Config(tf_padding=False, layer_norm_eps=1e-5))
    features = [
        state[name] for name in sorted(state, key=_place) if not name.startswith("classifier.")
    ]
    names = model.state_dict()
    return Pooled(_fill(model, dict(zip(names, features, strict=False))), first_token=False)


_PARAMETERS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def _place(name: str) -> tuple[list[int], int]:
    """Return where a tensor stands in torchvision's order; a safetensors file has its own."""
    *layers, parameter = name.split(".")
    numbers = [int(layer) for layer in layers if layer.isdecimal()]
    return numbers, _PARAMETERS.index(parameter) if parameter in _PARAMETERS else -1


def resnet18(state: State) -> nn.Module:
    """Return ResNet-18 with weights of torchvision's names [1]_; a classifier is left out.

    References
    ----------
    .. [1] He et al., "Deep Residual Learning for Image Recognition", 2016.
    """
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(
        embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic"
    )
    names = {"conv1": "embedder.embedder.convolution", "bn1": "embedder.embedder.normalization"}
    for stage, block in product(range(4), range(2)):
        source, target = f"layer{stage + 1}.{block}", f"encoder.stages.{stage}.layers.{block}"
        names |= {
            f"{source}.conv1": f"{target}.layer.0.convolution",
            f"{source}.bn1": f"{target}.layer.0.normalization",
            f"{source}.conv2": f"{target}.layer.1.convolution",
            f"{source}.bn2": f"{target}.layer.1.normalization",
            f"{source}.downsample.0": f"{target}.shortcut.convolution",
            f"{source}.downsample.1": f"{target}.shortcut.normalization",
        }
    renamed = {}
    for name, tensor in state.items():
        layer, _, parameter = name.rpartition(".")
        if layer != "fc":
            renamed[f"{names.get(layer, layer)}.{parameter}"] = tensor
    return Pooled(_fill(ResNetModel(config), renamed), first_token=False)


class _EfficientNetLite(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.model.extract_features(images)
        return maps.mean(dim=(2, 3))


def efficientnet_lite0(state: State) -> nn.Module:
    """Return EfficientNet-Lite0 from the package ``efficientnet_lite_pytorch``."""
    from efficientnet_lite_pytorch import EfficientNet

    return _EfficientNetLite(_fill(EfficientNet.from_name("efficientnet-lite0"), state))


CHECKPOINTS: dict[str, Callable[[State], nn.Module]] = {
    "squeezenet1.1": squeezenet1_1,
    "mobilenetv2": mobilenet_v2,
    "resnet18": resnet18,
    "efficientnet-lite0": efficientnet_lite0,
}
"""The networks whose checkpoints are read, by the backbone's name."""


def _fill(model: nn.Module, state: State) -> nn.Module:
    """Give a network its weights; none may be missing or left over."""
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise BackboneError(f"the checkpoint is of another network: {error}") from error
    return model


def from_transformers(folder: Path) -> nn.Module:
    """Return the network in a folder of transformers: a ViT's class token, or pooled features.

    Raises
    ------
    BackboneError
        If it is of another kind than ViT, ResNet and MobileNetV2.
    """
    from transformers import AutoConfig, AutoModel

    kind = AutoConfig.from_pretrained(folder).model_type
    if kind not in ("vit", "resnet", "mobilenet_v2"):
        raise BackboneError(f"{folder} is a {kind}; expected a vit, a resnet or a mobilenet_v2")
    vit = kind == "vit"
    # ViT's pooler is a head of its pre-training that the features do not pass.
    options = {"add_pooling_layer": False} if vit else {}
    return Pooled(AutoModel.from_pretrained(folder, **options), first_token=vit)


def transformers_preprocessing(folder: Path) -> Preprocessing:
    """Return how images are prepared for a model of transformers.

    The whole image is resized to the network's input, where transformers may cut out its centre.
    """
    import transformers

    loader: Any = transformers.AutoImageProcessor
    processor = loader.from_pretrained(folder, backend="pil")
    size = getattr(processor, "crop_size", None) or processor.size
    filters = ("nearest", "lanczos", "bilinear", "bicubic")  # Pillow's numbers
    return Preprocessing(
        size=size.get("height") or size["shortest_edge"],
        resampling=filters[processor.resample],  # type: ignore[arg-type]
        mean=tuple(255 * m for m in processor.image_mean),
        scale=tuple(255 * s for s in processor.image_std),
    )


TORCHVISION_WEIGHTS = "IMAGENET1K_V1"


def from_torchvision(name: str) -> tuple[nn.Module, Preprocessing]:
    """Return a network of torchvision, without its classifier, and its preprocessing.

    The weights are the first ones for ImageNet, those of most papers; ``DEFAULT`` of torchvision
    may be newer ones, as it is for MobileNetV2.
    """
    import torchvision

    model = getattr(torchvision.models, name)(weights=TORCHVISION_WEIGHTS)
    for head in ("classifier", "fc", "heads"):
        if hasattr(model, head):
            setattr(model, head, nn.Identity())
    if name.startswith("squeezenet"):  # its average is part of the classifier
        model = nn.Sequential(model.features, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return model, Preprocessing()


def from_timm(name: str) -> tuple[nn.Module, Preprocessing]:
    """Return a network of timm, without its classifier, and its preprocessing."""
    import timm

    model = timm.create_model(name, pretrained=True, num_classes=0)
    data = timm.data.resolve_data_config(model=model)
    return model, Preprocessing(
        size=data["input_size"][-1],
        resampling=data["interpolation"],
        mean=tuple(255 * m for m in data["mean"]),
        scale=tuple(255 * s for s in data["std"]),
    )


ZOOS = {"torchvision": from_torchvision, "timm": from_timm}


def state_digest(module: nn.Module) -> bytes:
    """Return the SHA-256 of a network's weights."""
    total = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        total.update(name.encode())
        total.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
    return total.digest()
