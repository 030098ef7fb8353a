"""A frozen feature extractor, run by ONNX Runtime or torch."""

import importlib.util
import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedcof.backbones.engine import Device, Engine, Features
from fedcof.backbones.fingerprint import fingerprint_of, model_digest, origin_of
from fedcof.backbones.preprocessing import ImageArray, Preprocessing
from fedcof.backbones.resolver import resolve
from fedcof.backbones.sources import ResolvedBackbone
from fedcof.pipeline import ahead


class Backbone:
    """A frozen network from images to features.

    Parameters
    ----------
    model : bytes, path or Engine
        A serialised ONNX model or its file. It takes one float32 tensor (n, 3, size, size) and
        gives one tensor: features (n, dim), or maps (n, dim, height, width), of which the
        backbone takes the average over all positions. Or what runs a network already; it then
        needs a fingerprint.
    preprocessing : Preprocessing
        What the network was trained on.
    name : str
        For people; it is not part of the fingerprint.
    device : {"auto", "cpu", "cuda"}
        Where it runs; "auto" takes CUDA where ONNX Runtime has it.
    fingerprint : str, optional
        Default: that of the model's content with the preprocessing.

    Attributes
    ----------
    fingerprint : str
        SHA-256 of architecture, weights and preprocessing, in hexadecimal digits: two backbones of
        one fingerprint give the same features.

    Raises
    ------
    BackboneError
        If the model cannot be loaded, or takes or gives something else, or if there is no CUDA
        for it.
    """

    def __init__(
        self,
        model: bytes | Path | Engine,
        preprocessing: Preprocessing,
        *,
        name: str = "onnx",
        device: Device = "auto",
        fingerprint: str | None = None,
    ) -> None:
        self.name = name
        self.preprocessing = preprocessing
        if isinstance(model, bytes | Path):
            from fedcof.backbones.onnx_engine import OnnxEngine  # slow: it imports ONNX Runtime

            self._engine: Engine = OnnxEngine(model, preprocessing, name=name, device=device)
            self.fingerprint = fingerprint or fingerprint_of(preprocessing, model_digest(model))
        elif fingerprint:
            self._engine, self.fingerprint = model, fingerprint
        else:
            raise ValueError("an engine says nothing of its network: give a fingerprint")

    @classmethod
    def from_onnx(
        cls,
        path: str | os.PathLike[str],
        preprocessing: Preprocessing | None = None,
        *,
        device: Device = "auto",
    ) -> Self:
        """Take a model of the user's own.

        Parameters
        ----------
        path : path
            An ONNX file.
        preprocessing : Preprocessing, optional
            What the network was trained on. Default: that of torchvision's ImageNet models.
        device : {"auto", "cpu", "cuda"}

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        BackboneError
            If it is no ONNX model, or one that takes or gives something else.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"no ONNX model at {path}")
        return cls(path, preprocessing or Preprocessing(), name=path.stem, device=device)

    @classmethod
    def of(cls, resolved: ResolvedBackbone, device: Device = "auto") -> Self:
        """Run a backbone whose weights are found.

        Parameters
        ----------
        resolved : ResolvedBackbone
            As `resolve` and `by_origin` return it.
        device : {"auto", "cpu", "cuda"}
            On CUDA it runs in ONNX Runtime where that was built for CUDA, else in torch.

        Raises
        ------
        NoWeightsError
            If it has to be exported to ONNX, and a package for that is not installed.
        BackboneError
            If its model cannot be used.
        """
        from fedcof.backbones.onnx_engine import has_cuda  # slow: it imports ONNX Runtime

        model: bytes | Path | Engine
        if device == "cuda" and resolved.build is not None and not has_cuda() and _torch_has_cuda():
            from fedcof.backbones.torch_engine import TorchEngine

            model = TorchEngine(resolved.module(), resolved.preprocessing, device=device)
        else:
            model = resolved.onnx_model()
        return cls(
            model,
            resolved.preprocessing,
            name=resolved.name,
            device=device,
            fingerprint=resolved.fingerprint,
        )

    def __repr__(self) -> str:
        return f"Backbone({self.name!r}, dim={self.dim}, fingerprint={self.fingerprint[:12]!r})"

    @property
    def dim(self) -> int:
        """Length of a feature, the paper's d."""
        return self._engine.dim

    @property
    def batch_size(self) -> int:
        """Images that the device takes at a time."""
        return self._engine.batch_size

    @property
    def origin(self) -> dict[str, str]:
        """What summaries and heads say of features that this backbone made."""
        return origin_of(self.fingerprint)

    def preprocess(self, image: ImageArray) -> NDArray[np.float32]:
        """Prepare one RGB image, a (height, width, 3) uint8 array, as a (3, size, size) tensor."""
        return self.preprocessing(image)

    def infer(self, batch: NDArray[np.float32]) -> Features:
        """Return the features (n, dim) of prepared images (n, 3, size, size)."""
        return self._engine.infer(batch)

    def extract(self, images: Iterable[ImageArray]) -> Features:
        """Return the features of RGB images.

        Parameters
        ----------
        images : (n, height, width, 3) uint8 array or iterable of (height, width, 3) uint8 arrays
            The images may differ in size.

        Returns
        -------
        (n, dim) float32 array
        """
        iterator = iter(images)
        batches = (
            self.preprocessing.as_batch(batch)
            for batch in iter(lambda: list(islice(iterator, self.batch_size)), [])
        )
        with closing(ahead(batches, depth=2)) as waiting:
            found = list(self.stream(waiting))
        return np.concatenate(found) if found else np.empty((0, self.dim), np.float32)

    def stream(self, batches: Iterable[ImageArray]) -> Generator[Features]:
        """Yield the features of batches, in order.

        Parameters
        ----------
        batches : iterable of (n, height, width, 3) uint8 arrays
            Each as `Preprocessing.as_batch` makes it, of any number of images: more than the device
            takes at a time are divided.

        Yields
        ------
        (n, dim) float32 array
        """
        size = self.batch_size
        parts = (batch[i : i + size] for batch in batches for i in range(0, len(batch), size))
        yield from self._engine.stream(parts)


def get(
    name: str, device: Device = "auto", *, preprocessing: Mapping[str, Any] | None = None
) -> Backbone:
    """Return a backbone with trained weights.

    Parameters
    ----------
    name, preprocessing
        As `resolve` takes them, whose errors are raised.
    device : {"auto", "cpu", "cuda"}
        Where it runs, as `Backbone.of` has it.
    """
    return Backbone.of(resolve(name, preprocessing), device)


def _torch_has_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    from fedcof.backbones.torch_engine import has_cuda

    return has_cuda()
