"""Classifiers in torch: a backbone, frozen or trained, under a linear head."""

from __future__ import annotations

import hashlib
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

from fedcof.backbones import BACKBONES, Preprocessing, torch_networks
from fedcof.backbones.sources import weights_folder
from fedcof.backbones.squeezenet1_1 import PREPROCESSING, Weights, read_weights, weights_path
from fedcof.data import ImageSource, read_image
from fedcof.errors import HeadError, NoWeightsError
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

    def fingerprint(self) -> str:
        """Return what tells it from one with other weights or another preprocessing."""
        told = f"{self.preprocessing} {torch_networks.state_digest(self.module)}"
        return hashlib.sha256(told.encode()).hexdigest()


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


def best_device() -> str:
    """Return where torch computes fastest here: "cuda" or "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


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
