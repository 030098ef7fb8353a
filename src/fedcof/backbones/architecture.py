"""What is known of a backbone before its weights are found."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedcof.backbones.preprocessing import Preprocessing
from fedcof.transforms import Standardize, Transform

if TYPE_CHECKING:
    from torch import nn

DEFAULT_TRANSFORM = Standardize()
"""Of a backbone for which nothing was measured: the one that never lost anything to speak of."""


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
class Layout:
    """A form in which a checkpoint may hold the weights of a network.

    Parameters
    ----------
    torch_module : callable
        From a checkpoint to the network in torch.
    preprocessing : Preprocessing
        How images are prepared for weights of this form.
    onnx_model : callable, optional
        From a checkpoint and the image size to a serialised ONNX model, without torch. Default:
        the network in torch is exported.
    """

    torch_module: Callable[[Path], nn.Module]
    preprocessing: Preprocessing = Preprocessing()  # noqa: RUF009 (it is frozen)
    onnx_model: Callable[[Path, int], bytes] | None = None


@dataclass(frozen=True)
class Architecture:
    """A network up to its features, and where weights for it may be found.

    Parameters
    ----------
    name, title : str
    dim : int
        Length of a feature.
    layout : callable, optional
        From a checkpoint to its form. Default: no checkpoint is read.
    package : Package, optional
        Carries a checkpoint.
    transformers : str, optional
        A model id of Hugging Face ``transformers``.
    torchvision, timm : str, optional
        What the network is called in these packages.
    paper : str, default ""
        Where the paper's weights are from, one of `NAMED_SOURCES`. Empty: the paper has no numbers
        with this network, or does not say.
    transform : Transform, default DEFAULT_TRANSFORM
        What helps its features, as ``fedcof backbones advise`` measured it on public images.
    """

    name: str
    title: str
    dim: int
    layout: Callable[[Path], Layout] | None = None
    package: Package | None = None
    transformers: str | None = None
    torchvision: str | None = None
    timm: str | None = None
    paper: str = ""
    transform: Transform = DEFAULT_TRANSFORM
