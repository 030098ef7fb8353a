"""What is known of a backbone before its weights are found."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedcof.backbones.preprocessing import Preprocessing

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Package:
    """A Python package that carries weights; the file is read, the package's code is not run.

    Parameters
    ----------
    name : str
        As it is imported.
    file : str
        In the package's folder.
    install : str
        How to install it.
    """

    name: str
    file: str
    install: str

    def path(self) -> Path | None:
        """Return where the weights are; None if the package is not installed."""
        spec = importlib.util.find_spec(self.name)
        if spec is None or not spec.submodule_search_locations:
            return None
        return Path(spec.submodule_search_locations[0]) / self.file


@dataclass(frozen=True)
class Architecture:
    """A network up to its features, and where weights for it may be found.

    Parameters
    ----------
    name, title : str
    dim : int
        Length of a feature.
    preprocessing : Preprocessing
        How images are prepared for weights in a checkpoint; other sources have their own.
    torch_module : callable, optional
        From a checkpoint to the network in torch. Default: no checkpoint of it is read.
    onnx_model : callable, optional
        From a checkpoint and the image size to a serialised ONNX model, without torch. Default:
        the network in torch is exported.
    package : Package, optional
        Carries a checkpoint.
    transformers : str, optional
        A model id of Hugging Face ``transformers``.
    torchvision, timm : str, optional
        What the network is called in these packages.
    """

    name: str
    title: str
    dim: int
    preprocessing: Preprocessing = Preprocessing()  # noqa: RUF009 (it is frozen)
    torch_module: Callable[[Path], nn.Module] | None = None
    onnx_model: Callable[[Path, int], bytes] | None = None
    package: Package | None = None
    transformers: str | None = None
    torchvision: str | None = None
    timm: str | None = None
