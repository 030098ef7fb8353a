"""Where trained weights come from, in the order in which they are looked for.

A source gives a backbone or raises `NoWeightsError`, which says what it would need, or nothing
where it never has such weights. torch is imported only to export a network, which is done once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedcof.backbones.architecture import Architecture
from fedcof.backbones.backbone import Backbone, Device
from fedcof.backbones.model_cache import cached_model, digest
from fedcof.backbones.preprocessing import Preprocessing
from fedcof.errors import BackboneError, NoWeightsError
from fedcof.files import cache_folder


def weights_folder() -> Path:
    """Return the folder for weights that the user has as files.

    It is ``$FEDCOF_WEIGHTS`` where that is set, else ``weights`` in the cache folder.
    """
    override = os.environ.get("FEDCOF_WEIGHTS")
    return Path(override).expanduser() if override else cache_folder() / "weights"


def find_here(architecture: Architecture) -> Path | None:
    """Return the file or folder on this machine that has the weights, if there is one."""
    name, folder, package = architecture.name, weights_folder(), architecture.package
    checkpoints = [folder / f"{name}.pth", package.path() if package else None]
    candidates = [
        folder / f"{name}.onnx",
        *(checkpoints if architecture.build else ()),
        folder / name,
    ]
    return next((path for path in candidates if path is not None and path.exists()), None)


def onnx_file(path: Path, device: Device) -> Backbone:
    """Return the backbone in an ONNX file.

    A file of the same name that ends in ``.json`` holds the parameters of its `Preprocessing`,
    where they are not those of torchvision's ImageNet models.

    Raises
    ------
    BackboneError
        If one of the two cannot be used.
    """
    sidecar = path.with_suffix(".json")
    preprocessing = Preprocessing()
    if sidecar.is_file():
        try:
            fields: dict[str, Any] = json.loads(sidecar.read_text())
            for name in fields.keys() & {"mean", "scale"}:
                fields[name] = tuple(fields[name])
            preprocessing = Preprocessing(**fields)
        except (ValueError, TypeError, AttributeError) as error:
            raise BackboneError(f"{sidecar} does not describe a Preprocessing: {error}") from error
    return Backbone.from_onnx(path, preprocessing, device=device)


def from_onnx(architecture: Architecture, device: Device) -> Backbone:
    """Take ``NAME.onnx`` in the folder for weights."""
    path = weights_folder() / f"{architecture.name}.onnx"
    if not path.is_file():
        raise NoWeightsError(f"the ONNX file {path}")
    return onnx_file(path, device)


def from_checkpoint(architecture: Architecture, device: Device) -> Backbone:
    """Take ``NAME.pth`` in the folder for weights, or the file that a package carries."""
    name, build, package = architecture.name, architecture.build, architecture.package
    if build is None:
        raise NoWeightsError
    path = weights_folder() / f"{name}.pth"
    wanted = f"the checkpoint {path}"
    if not path.is_file():
        packaged = package.path() if package else None
        if packaged is None:
            raise NoWeightsError(f"{wanted}, or: {package.install}" if package else wanted)
        path = packaged
    with _needing_torch(f"{path}, exported"):
        model = cached_model(name, digest([path]), lambda: build(path))
    return Backbone(model, architecture.preprocessing, name=name, device=device)


def transformers_model(source: str, name: str, device: Device) -> Backbone:
    """Return a ViT, ResNet or MobileNetV2 in the format of Hugging Face ``transformers``.

    Parameters
    ----------
    source : str
        A folder with ``config.json``, ``preprocessor_config.json`` and weights, or a model id.
    name : str

    Raises
    ------
    NoWeightsError
        If it cannot be had, or ``transformers`` is not installed.
    BackboneError
        If it is another kind of model.
    """
    with _needing_torch(f"the model {source}"):
        from fedcof.backbones import torch_networks

        folder = torch_networks.transformers_folder(source)
        preprocessing = torch_networks.transformers_preprocessing(folder)
    files = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors"))

    def build() -> bytes:
        from fedcof.backbones.torch_export import export

        return export(torch_networks.from_transformers(folder), preprocessing, name=name)

    with _needing_torch(f"the model {source}, exported"):
        model = cached_model(name, digest(files), build)
    return Backbone(model, preprocessing, name=name, device=device)


def from_transformers(architecture: Architecture, device: Device) -> Backbone:
    """Take the folder ``NAME`` in the folder for weights, or a model id of the hub."""
    folder = weights_folder() / architecture.name
    source = str(folder) if folder.is_dir() else architecture.transformers
    if source is None:
        raise NoWeightsError(f"the folder {folder} in the format of transformers")
    return transformers_model(source, architecture.name, device)


def from_torchvision(architecture: Architecture, device: Device) -> Backbone:
    """Take torchvision's ImageNet weights."""
    return _from_zoo("torchvision", architecture.torchvision, architecture.name, device)


def from_timm(architecture: Architecture, device: Device) -> Backbone:
    """Take timm's ImageNet weights."""
    return _from_zoo("timm", architecture.timm, architecture.name, device)


SOURCES = (from_onnx, from_checkpoint, from_transformers, from_torchvision, from_timm)


def _from_zoo(zoo: str, model: str | None, name: str, device: Device) -> Backbone:
    if model is None:
        raise NoWeightsError
    with _needing_torch(f"{model} of {zoo}"):
        from fedcof.backbones import torch_networks
        from fedcof.backbones.torch_export import export

        module, preprocessing = torch_networks.ZOOS[zoo](model)
        weights = torch_networks.state_digest(module)
        exported = cached_model(name, weights, lambda: export(module, preprocessing, name=name))
    return Backbone(exported, preprocessing, name=name, device=device)


@contextmanager
def _needing_torch(what: str) -> Iterator[None]:
    """Say which package is missing, or what could not be had from the network."""
    try:
        yield
    except ModuleNotFoundError as error:
        hint = "" if error.name in ("torchvision", "timm") else ": pip install 'fedcof[torch]'"
        raise NoWeightsError(f"{what}; that needs {error.name}, not installed{hint}") from error
    except (OSError, RuntimeError) as error:  # the latter from a torchvision of another torch
        reason = str(error).partition("\n")[0]
        raise NoWeightsError(f"{what}; that failed: {reason}") from error
