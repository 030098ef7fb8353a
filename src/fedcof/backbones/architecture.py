"""What is known of a backbone before its weights are found."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedcof.backbones.preprocessing import Preprocessing

_IMAGENET = Preprocessing()


@dataclass(frozen=True)
class Package:
    """A package of Python that carries weights; the file is taken, the code is not run.

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
    build : callable, optional
        From a file of weights to a serialised ONNX model.
    preprocessing : Preprocessing
        What these weights want of an image.
    package : Package, optional
        Carries such a file.
    transformers : str, optional
        A model id of Hugging Face ``transformers``.
    torchvision, timm : str, optional
        What the network is called in these packages.
    """

    name: str
    title: str
    dim: int
    build: Callable[[Path], bytes] | None = None
    preprocessing: Preprocessing = _IMAGENET
    package: Package | None = None
    transformers: str | None = None
    torchvision: str | None = None
    timm: str | None = None
