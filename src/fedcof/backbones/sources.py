"""The places where weights of a backbone may be: an ONNX file, a checkpoint, or a library.

Every kind is a class. `resolver` says in which order the places are tried.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from fedcof.backbones.architecture import Architecture, Package
from fedcof.backbones.fingerprint import files_digest, fingerprint_of, model_digest
from fedcof.backbones.model_cache import cached_model
from fedcof.backbones.preprocessing import Preprocessing
from fedcof.errors import BackboneError, NoWeightsError

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

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of architecture, weights and preprocessing, the same under every runtime."""
        return fingerprint_of(self.preprocessing, self.weights, self.architecture)

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
            return cached_model(self.name, self.fingerprint, self._make_onnx)

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


class Source(ABC):
    """A place where weights of a backbone may be."""

    in_weights_folder: ClassVar[bool] = True
    """Whether the user puts the weights there as files."""

    @property
    @abstractmethod
    def wanted(self) -> str:
        """What is needed, for people."""

    def here(self) -> Path | None:
        """Return the file or folder on this machine that has the weights, if there is one."""
        return None

    @abstractmethod
    def resolve(self) -> ResolvedBackbone:
        """Return the backbone with these weights; a library may fetch them.

        Raises
        ------
        NoWeightsError
            If the weights are not there and cannot be had; the text says what is needed.
        BackboneError
            If they are there and cannot be used.
        """


@dataclass(frozen=True)
class OnnxFile(Source):
    """An ONNX model; it holds its architecture, and cannot be trained.

    A file of the same name that ends in ``.json`` holds the parameters of its `Preprocessing`,
    where they are not those of torchvision's ImageNet models.
    """

    path: Path

    @property
    def wanted(self) -> str:
        """What is needed, for people."""
        return f"the ONNX file {self.path}"

    def here(self) -> Path | None:
        """Return the file if it is there."""
        return self.path if self.path.is_file() else None

    def resolve(self) -> ResolvedBackbone:
        """Return the backbone in the file."""
        if not self.path.is_file():
            raise NoWeightsError(self.wanted)
        try:
            weights = model_digest(self.path)
        except Exception as error:  # protobuf raises its own errors
            raise BackboneError(f"{self.path} is no ONNX model: {error}") from error
        return ResolvedBackbone(
            self.path.stem, self.wanted, self._preprocessing(), weights, onnx=self.path
        )

    def _preprocessing(self) -> Preprocessing:
        described = self.path.with_suffix(".json")
        if not described.is_file():
            return Preprocessing()
        try:
            return Preprocessing(**json.loads(described.read_text()))
        except (ValueError, TypeError) as error:
            raise BackboneError(f"{described} does not describe a Preprocessing: {error}") from None


@dataclass(frozen=True)
class Checkpoint(Source):
    """A file of weights in the format that the architecture reads."""

    architecture: Architecture
    path: Path

    @property
    def wanted(self) -> str:
        """What is needed, for people."""
        return f"the checkpoint {self.path}"

    def here(self) -> Path | None:
        """Return the file if it is there."""
        return self.path if self.path.is_file() else None

    def resolve(self) -> ResolvedBackbone:
        """Return the architecture with the weights in the file; torch is not needed yet."""
        path, found = self.here(), self.architecture
        if path is None or found.torch_module is None:
            raise NoWeightsError(self.wanted)
        return ResolvedBackbone(
            found.name,
            f"the checkpoint {path}",
            found.preprocessing,
            files_digest([path]),
            architecture=found.name,
            build=partial(found.torch_module, path),
            onnx=found.onnx_model and partial(found.onnx_model, path),
        )


@dataclass(frozen=True)
class Packaged(Source):
    """A checkpoint that an installed package carries."""

    in_weights_folder: ClassVar[bool] = False
    architecture: Architecture
    package: Package

    @property
    def wanted(self) -> str:
        """What is needed, for people."""
        return self.package.install

    def here(self) -> Path | None:
        """Return the file if the package is installed and has it."""
        path = self.package.path()
        return path if path and path.is_file() else None

    def resolve(self) -> ResolvedBackbone:
        """Return the architecture with the weights in the package's file."""
        path = self.here()
        if path is None:
            raise NoWeightsError(self.wanted)
        return Checkpoint(self.architecture, path).resolve()


@dataclass(frozen=True)
class TransformersFolder(Source):
    """A ViT, ResNet or MobileNetV2 in a folder in the format of Hugging Face ``transformers``."""

    name: str
    path: Path

    @property
    def wanted(self) -> str:
        """What is needed, for people."""
        return f"the folder {self.path} in the format of transformers"

    def here(self) -> Path | None:
        """Return the folder if it is there."""
        return self.path if self.path.is_dir() else None

    def resolve(self) -> ResolvedBackbone:
        """Return the model in the folder."""
        if not self.path.is_dir():
            raise NoWeightsError(self.wanted)
        with needing_packages(self.wanted):
            return _transformers_model(self.name, self.wanted, self.path)


@dataclass(frozen=True)
class TransformersHub(Source):
    """A ViT, ResNet or MobileNetV2 of the Hugging Face hub, or of its cache on this machine."""

    in_weights_folder: ClassVar[bool] = False
    name: str
    model_id: str

    @property
    def wanted(self) -> str:
        """What is needed, for people."""
        return f"the model {self.model_id} of transformers"

    def resolve(self) -> ResolvedBackbone:
        """Return the model of that id."""
        with needing_packages(self.wanted):
            from huggingface_hub import snapshot_download

            folder = snapshot_download(self.model_id, allow_patterns=["*.json", "*.safetensors"])
            return _transformers_model(self.name, self.wanted, Path(folder))


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


@dataclass(frozen=True)
class Zoo(Source):
    """A network of torchvision or timm, which fetch its ImageNet weights."""

    in_weights_folder: ClassVar[bool] = False
    name: str
    library: Literal["torchvision", "timm"]
    model: str

    @property
    def wanted(self) -> str:
        """What is needed, for people."""
        return f"{self.model} of {self.library}"

    def resolve(self) -> ResolvedBackbone:
        """Return the network with the library's weights."""
        with needing_packages(self.wanted):
            from fedcof.backbones import torch_networks

            module, preprocessing = torch_networks.ZOOS[self.library](self.model)
            return ResolvedBackbone(
                self.name,
                self.wanted,
                preprocessing,
                torch_networks.state_digest(module),
                architecture=f"{self.library}/{self.model}",
                build=lambda: module,
            )


@contextmanager
def needing_packages(what: str) -> Iterator[None]:
    """Say which package is missing, or what could not be had, as a `NoWeightsError`."""
    try:
        yield
    except ModuleNotFoundError as error:
        hint = "" if error.name in ("torchvision", "timm") else ": pip install 'fedcof[torch]'"
        raise NoWeightsError(f"{what}; that needs {error.name}, not installed{hint}") from error
    except (OSError, RuntimeError) as error:  # the latter from a torchvision of another torch
        reason = str(error).partition("\n")[0]
        raise NoWeightsError(f"{what}; that failed: {reason}") from error
