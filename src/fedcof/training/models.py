"""Classifiers in torch: a backbone, frozen or trained, under a linear head."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

from fedcof.backbones import Preprocessing
from fedcof.backbones.squeezenet1_1 import PREPROCESSING, Weights, read_weights, weights_path
from fedcof.data import ImageSource, read_image
from fedcof.errors import HeadError
from fedcof.heads import LinearHead, Provenance
from fedcof.training.local import State

_NAMED_IN_ERROR = 5


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


class Classifier(nn.Module):
    """A backbone and a linear head; the trained parameters are those that require a gradient.

    Parameters
    ----------
    backbone : torch.nn.Module
        ``torch.nn.Identity()`` for linear probing, whose inputs are features.
    head : LinearHead
        The start.
    """

    def __init__(self, backbone: nn.Module, head: LinearHead) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head.to_torch()

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits (n, classes)."""
        logits: Tensor = self.head(self.backbone(inputs))
        return logits


def random_head(dim: int, classes: ArrayLike, *, seed: int) -> LinearHead:
    """Return an untrained head, drawn as ``torch.nn.Linear`` draws its weight, without bias."""
    labels = np.unique(np.asarray(classes))
    bound = 1 / np.sqrt(dim)
    weight = np.random.default_rng(seed).uniform(-bound, bound, (len(labels), dim))
    return LinearHead(weight, labels, provenance=Provenance("random", {"seed": seed}))


def head_of(state: State, classes: NDArray[Any]) -> LinearHead:
    """Return the head in a state."""
    return LinearHead(state["head.weight"], classes, bias=state.get("head.bias"))


def check_head(head: LinearHead, dim: int, labels: NDArray[Any]) -> None:
    """Check that a head fits features of length ``dim`` with these labels.

    Raises
    ------
    HeadError
        If its features have another length, or its classes are not those of the labels.
    """
    if head.dim != dim:
        raise HeadError(
            f"the head takes features of length {head.dim}, the backbone gives {dim}; solve the "
            "head on features of the same backbone"
        )
    have, want = set(head.classes.tolist()), set(np.unique(labels).tolist())
    if have != want:
        raise HeadError(
            f"the head's {len(have)} classes are not the {len(want)} of the data: "
            f"{_some(want - have)} only in the data, {_some(have - want)} only in the head; solve "
            "the head on this data, or map its labels"
        )


def _some(labels: set[Any]) -> str:
    if not labels:
        return "none"
    named = ", ".join(map(repr, sorted(labels, key=str)[:_NAMED_IN_ERROR]))
    return named if len(labels) <= _NAMED_IN_ERROR else f"{named} and more ({len(labels)} in all)"


class Images:
    """Images as the batches of a backbone, read and prepared when they are needed.

    Parameters
    ----------
    sources : sequence of paths, encoded images (bytes) or pixel arrays
    preprocessing : Preprocessing
    """

    def __init__(
        self, sources: Sequence[ImageSource] | NDArray[np.uint8], preprocessing: Preprocessing
    ) -> None:
        self._sources = sources
        self._preprocessing = preprocessing

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, rows: NDArray[np.int64]) -> Tensor:
        """Return a (batch, 3, size, size) float32 tensor."""
        with ThreadPoolExecutor(joblib.cpu_count()) as pool:
            prepared = list(pool.map(self._prepare, rows.tolist()))
        return torch.from_numpy(np.stack(prepared))

    def _prepare(self, row: int) -> NDArray[np.float32]:
        return self._preprocessing(read_image(self._sources[row]))


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
    """SqueezeNet 1.1 up to its 512 features, the twin of the ONNX backbone."""

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

    def load_weights(self, weights: Weights) -> None:
        """Take the weights that the ONNX backbone has, in the layout of Keras."""
        with torch.no_grad():
            for name, layer in self.named_modules():
                if isinstance(layer, nn.Conv2d):
                    kernel, bias = weights[name.replace(".", "/")]
                    layer.weight.copy_(torch.tensor(kernel).permute(3, 2, 0, 1))
                    assert layer.bias is not None
                    layer.bias.copy_(torch.tensor(bias))


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


class _Pooled(nn.Module):
    """A model of transformers that gives one feature an image."""

    def __init__(self, model: nn.Module, *, first_token: bool) -> None:
        super().__init__()
        self.model = model
        self.first_token = first_token

    def forward(self, images: Tensor) -> Tensor:
        output = self.model(pixel_values=images)
        feature: Tensor = (
            output.last_hidden_state[:, 0] if self.first_token else output.pooler_output
        )
        return feature.flatten(1)


def from_transformers(path: str | Path) -> TorchBackbone:
    """Return a ResNet or ViT in the format of transformers.

    Parameters
    ----------
    path : str or path
        A folder with ``config.json``, weights and ``preprocessor_config.json``, or a name on the
        Hugging Face hub, such as ``"microsoft/resnet-18"``.

    Raises
    ------
    FileNotFoundError
        If there is no such model, here or on the hub.
    ValueError
        If it is of another kind than ResNet and ViT.
    """
    from transformers import AutoConfig, AutoImageProcessor, AutoModel

    try:
        config = AutoConfig.from_pretrained(path)
        processor = AutoImageProcessor.from_pretrained(path)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise FileNotFoundError(
            f"no model of transformers at {path}: expected a folder with config.json, "
            f"preprocessor_config.json and weights, or a name on the hub ({error})"
        ) from None
    if config.model_type not in ("vit", "resnet"):
        raise ValueError(f"{path} is a {config.model_type}; expected a vit or a resnet")
    vit = config.model_type == "vit"
    # ViT's pooler is a head of its pre-training that the features do not pass.
    options = {"add_pooling_layer": False} if vit else {}
    model = AutoModel.from_pretrained(path, **options)
    dim = config.hidden_size if vit else config.hidden_sizes[-1]
    return TorchBackbone(_Pooled(model, first_token=vit), dim, _preprocessing(processor))


def _preprocessing(processor: Any) -> Preprocessing:
    size = processor.size.get("height") or processor.size["shortest_edge"]
    filters = ("nearest", "lanczos", "bilinear", "bicubic")
    return Preprocessing(
        size=size,
        resampling=filters[processor.resample],  # type: ignore[arg-type]
        mean=tuple(255 * m for m in processor.image_mean),
        scale=tuple(255 * s for s in processor.image_std),
    )
