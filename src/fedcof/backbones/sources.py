"""The places where weights of a backbone may be: an ONNX file, a checkpoint, or a library.

Every kind is a function. `resolver` says in which order the places are tried.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedcof.backbones.architecture import Architecture, Package
from fedcof.backbones.fingerprint import files_digest, fingerprint_of, model_digest, origin_of
from fedcof.backbones.preprocessing import Preprocessing
from fedcof.errors import BackboneError, NoWeightsError
from fedcof.files import cache_folder, fetch, store
from fedcof.installation import install_line

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, eq=False)
class ResolvedBackbone:
    """A backbone whose weights are found, before any runtime loads them.

    Parameters
    ----------
    name : str
        For people.
    source : str
        Where the weights are, for people.
    preprocessing : Preprocessing
    weights : bytes
        A digest of the weights.
    architecture : str, default ""
        Empty where the weights' file holds the architecture too.
    build : callable, optional
        Makes the network in torch. None where the weights are an ONNX model, which cannot be
        trained.
    onnx : path or callable, optional
        The file of the ONNX model, or what makes it for an image size. Default: the network in
        torch is exported.
    """

    name: str
    source: str
    preprocessing: Preprocessing
    weights: bytes
    architecture: str = ""
    build: Callable[[], nn.Module] | None = None
    onnx: Path | Callable[[int], bytes] | None = None

    def prepared(self, preprocessing: Mapping[str, Any]) -> ResolvedBackbone:
        """Return the backbone with some fields of its preprocessing replaced.

        Raises
        ------
        BackboneError
            If no image can be prepared in this way.
        """
        if not preprocessing:
            return self
        try:
            changed = replace(self.preprocessing, **preprocessing)
        except (ValueError, TypeError) as error:
            raise BackboneError(f"backbone {self.name}: {error}") from None
        return replace(self, preprocessing=changed)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of architecture, weights and preprocessing, the same under every runtime."""
        return fingerprint_of(self.preprocessing, self.weights, self.architecture)

    @property
    def origin(self) -> dict[str, str]:
        """What summaries and heads say of features that this backbone made."""
        return origin_of(self.fingerprint)

    def onnx_model(self) -> bytes | Path:
        """Return the ONNX model; one that has to be made is made once and kept in the cache.

        Raises
        ------
        NoWeightsError
            If it has to be exported, and a package for that is not installed.
        BackboneError
            If the weights are of another network, or the export fails.
        """
        if isinstance(self.onnx, Path):
            return self.onnx
        with needing_packages(f"{self.source}, exported to ONNX"):
            path = cache_folder() / "models" / f"{self.name}-{self.fingerprint}.onnx"
            model = fetch(path)
            if model is None:
                model = self._make_onnx()
                store(path, model)
            return model

    def module(self) -> nn.Module:
        """Return the network in torch.

        Raises
        ------
        NoWeightsError
            If a package for it is not installed.
        BackboneError
            If the weights are an ONNX model, or of another network.
        """
        if self.build is None:
            raise BackboneError(f"{self.source} is an ONNX model, which torch cannot train")
        with needing_packages(f"{self.source}, in torch"):
            return self.build().eval()

    def _make_onnx(self) -> bytes:
        if callable(self.onnx):
            return self.onnx(self.preprocessing.size)
        from fedcof.backbones.torch_export import export

        return export(self.module(), self.preprocessing, name=self.name)


NAMED_SOURCES = ("bundled", "torchvision", "timm", "transformers")
"""Where weights may be from besides a file: a package that carries them, or a library."""


@dataclass(frozen=True, eq=False)
class Source:
    """A place where weights of a backbone may be.

    Parameters
    ----------
    name : str
        One of `NAMED_SOURCES`, or "file".
    wanted : str
        What is needed there, for people.
    resolve : callable
        Returns the backbone with these weights, which a library may fetch. It raises
        `NoWeightsError` if they are not there and cannot be had, and `BackboneError` if they are
        there and cannot be used.
    path : path, optional
        The file or folder that has them. Default: a library fetches them, or a package that
        carries them is not installed.
    trainable : bool, default True
    """

    name: str
    wanted: str
    resolve: Callable[[], ResolvedBackbone]
    path: Path | None = None
    trainable: bool = True

    def here(self) -> Path | None:
        """Return the file or folder on this machine that has the weights, if there is one."""
        return self.path if self.path and self.path.exists() else None


def onnx_file(path: Path) -> Source:
    """Return an ONNX model; it holds its architecture, and cannot be trained.

    A file of the same name that ends in ``.json`` holds the parameters of its `Preprocessing`,
    where they are not those of torchvision's ImageNet models.
    """
    wanted = f"the ONNX file {path}"

    def resolve() -> ResolvedBackbone:
        if not path.is_file():
            raise NoWeightsError(wanted)
        try:
            weights = model_digest(path)
        except Exception as error:  # protobuf raises its own errors
            raise BackboneError(f"{path} is no ONNX model: {error}") from error
        preprocessing = _read_preprocessing(path.with_suffix(".json"))
        return ResolvedBackbone(path.stem, wanted, preprocessing, weights, onnx=path)

    return Source("file", wanted, resolve, path, trainable=False)


def _read_preprocessing(path: Path) -> Preprocessing:
    if not path.is_file():
        return Preprocessing()
    try:
        return Preprocessing(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise BackboneError(f"{path} does not describe a Preprocessing: {error}") from None


def checkpoint(architecture: Architecture, path: Path, name: str = "file") -> Source:
    """Return a file of weights in a layout that the architecture reads."""
    wanted = f"the checkpoint {path}"

    def resolve() -> ResolvedBackbone:
        if architecture.layout is None or not path.is_file():
            raise NoWeightsError(wanted)
        layout = architecture.layout(path)
        return ResolvedBackbone(
            architecture.name,
            wanted,
            layout.preprocessing,
            files_digest([path]),
            architecture=architecture.name,
            build=partial(layout.torch_module, path),
            onnx=layout.onnx_model and partial(layout.onnx_model, path),
        )

    return Source(name, wanted, resolve, path)


def packaged(architecture: Architecture, package: Package) -> Source:
    """Return a checkpoint that an installed package carries."""
    path = package.path()
    if path is not None and path.is_file():
        return checkpoint(architecture, path, "bundled")

    def resolve() -> ResolvedBackbone:
        raise NoWeightsError(package.install)

    return Source("bundled", package.install, resolve)


def transformers_folder(name: str, path: Path) -> Source:
    """Return a ViT, ResNet or MobileNetV2 in the format of Hugging Face ``transformers``."""
    wanted = f"the folder {path} in the format of transformers"

    def resolve() -> ResolvedBackbone:
        if not path.is_dir():
            raise NoWeightsError(wanted)
        with needing_packages(wanted):
            return _transformers_model(name, wanted, path)

    return Source("transformers", wanted, resolve, path)


def transformers_hub(name: str, model_id: str) -> Source:
    """Return a model of the Hugging Face hub, or of its cache on this machine."""
    wanted = f"the model {model_id} of transformers"

    def resolve() -> ResolvedBackbone:
        with needing_packages(wanted):
            from huggingface_hub import snapshot_download

            folder = snapshot_download(model_id, allow_patterns=["*.json", "*.safetensors"])
            return _transformers_model(name, wanted, Path(folder))

    return Source("transformers", wanted, resolve)


def _transformers_model(name: str, source: str, folder: Path) -> ResolvedBackbone:
    from fedcof.backbones import torch_networks

    config, _, weights = files = [
        folder / file for file in ("config.json", "preprocessor_config.json", "model.safetensors")
    ]
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing")
    return ResolvedBackbone(
        name,
        source,
        torch_networks.transformers_preprocessing(folder),
        files_digest([config, weights]),
        architecture="transformers",
        build=partial(torch_networks.from_transformers, folder),
    )


def zoo(name: str, library: Literal["torchvision", "timm"], model: str) -> Source:
    """Return a network of torchvision or timm, which fetch its ImageNet weights."""
    wanted = f"{model} of {library}"

    def resolve() -> ResolvedBackbone:
        with needing_packages(wanted):
            from fedcof.backbones import torch_networks

            module, preprocessing = torch_networks.ZOOS[library](model)
            return ResolvedBackbone(
                name,
                wanted,
                preprocessing,
                torch_networks.state_digest(module),
                architecture=f"{library}/{model}",
                build=lambda: module,
            )

    return Source(library, wanted, resolve)


@contextmanager
def needing_packages(purpose: str) -> Iterator[None]:
    """Say which package is missing, or what could not be had, as a `NoWeightsError`."""
    try:
        yield
    except ModuleNotFoundError as error:
        zoo = error.name in ("torchvision", "timm")
        line = f"pip install {error.name}" if zoo else install_line("torch")
        raise NoWeightsError(
            f"{purpose}; that needs {error.name}, not installed: {line}"
        ) from error
    except (OSError, RuntimeError) as error:  # the latter from a torchvision of another torch
        reason = str(error).partition("\n")[0]
        raise NoWeightsError(f"{purpose}; that failed: {reason}") from error
