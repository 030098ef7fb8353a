"""A frozen feature extractor, run by ONNX Runtime."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import joblib
import numpy as np
import onnxruntime
from numpy.typing import NDArray

from fedcof.backbones.fingerprint import fingerprint_of, model_digest, origin_of
from fedcof.backbones.preprocessing import ImageArray, Preprocessing
from fedcof.backbones.resolver import resolve
from fedcof.backbones.sources import ResolvedBackbone
from fedcof.errors import BackboneError

BATCH_SIZE = 32

Device = Literal["auto", "cpu", "cuda"]

_CPU = "CPUExecutionProvider"
_CUDA = "CUDAExecutionProvider"

T = TypeVar("T")
R = TypeVar("R")
Features = NDArray[np.float32]


class Backbone:
    """A frozen network from images to features.

    Parameters
    ----------
    model : bytes or path
        A serialised ONNX model or its file. It takes one float32 tensor (n, 3, size, size) and
        gives one tensor: features (n, dim), or maps (n, dim, height, width), of which the
        backbone takes the average over all positions.
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
    dim : int
        Length of a feature, the paper's d.
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
        model: bytes | Path,
        preprocessing: Preprocessing,
        *,
        name: str = "onnx",
        device: Device = "auto",
        fingerprint: str | None = None,
    ) -> None:
        self.name = name
        self.preprocessing = preprocessing
        self._session = _session(model, name, device)
        self.fingerprint = fingerprint or fingerprint_of(preprocessing, model_digest(model))
        self._input = _check_input(self._session, preprocessing, name)
        self.dim = self._measure_dim()

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

        Raises
        ------
        NoWeightsError
            If it has to be exported to ONNX, and a package for that is not installed.
        BackboneError
            If its model cannot be used.
        """
        return cls(
            resolved.onnx_model(),
            resolved.preprocessing,
            name=resolved.name,
            device=device,
            fingerprint=resolved.fingerprint,
        )

    def __repr__(self) -> str:
        return f"Backbone({self.name!r}, dim={self.dim}, fingerprint={self.fingerprint[:12]!r})"

    @property
    def origin(self) -> dict[str, str]:
        """What summaries and heads say of features that this backbone made."""
        return origin_of(self.fingerprint)

    def preprocess(self, image: ImageArray) -> NDArray[np.float32]:
        """Prepare one RGB image, a (height, width, 3) uint8 array, as a (3, size, size) tensor."""
        return self.preprocessing(image)

    def infer(self, batch: NDArray[np.float32]) -> Features:
        """Return the features (n, dim) of prepared images (n, 3, size, size)."""
        features: Features = self._session.run(None, {self._input: batch})[0]
        return features.mean(axis=(2, 3)) if features.ndim == 4 else features

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
        batches = list(self.stream(images, self.preprocess))
        return np.concatenate(batches) if batches else np.empty((0, self.dim), np.float32)

    def stream(
        self, items: Iterable[T], prepare: Callable[[T], NDArray[np.float32]]
    ) -> Iterator[Features]:
        """Yield features batch by batch, in order, never holding more than a few batches.

        Parameters
        ----------
        items : iterable
            What ``prepare`` takes: images, paths, bytes.
        prepare : callable
            From an item to a (3, size, size) float32 tensor. It runs in threads, ahead of the
            inference and in parallel with it.

        Yields
        ------
        (at most 32, dim) float32 array
        """

        def prepare_batch(batch: list[T]) -> NDArray[np.float32]:
            return np.stack([prepare(item) for item in batch])

        workers = joblib.cpu_count()
        pool = ThreadPoolExecutor(workers, thread_name_prefix="fedcof-preprocess")
        try:
            for tensor in _map_ahead(pool, prepare_batch, _batches(items), ahead=workers + 1):
                yield self.infer(tensor)
        finally:
            pool.shutdown(cancel_futures=True)

    def _measure_dim(self) -> int:
        size = self.preprocessing.size
        try:
            output = self._session.run(
                None, {self._input: np.zeros((2, 3, size, size), np.float32)}
            )[0]
        except Exception as error:
            raise BackboneError(
                f"backbone {self.name}: the model does not run on two {size} x {size} images "
                f"({error}); does Preprocessing.size fit it?"
            ) from error
        if output.ndim not in (2, 4) or output.shape[0] != 2:
            raise BackboneError(
                f"backbone {self.name}: the output for 2 images has shape {output.shape}; expected "
                "features (2, dim) or maps (2, dim, height, width). Export the model up to its "
                "pooled features"
            )
        if output.dtype != np.float32:
            raise BackboneError(
                f"backbone {self.name}: the output is {output.dtype}, expected float32"
            )
        return int(output.shape[1])


def get(
    name: str, device: Device = "auto", *, preprocessing: Mapping[str, Any] | None = None
) -> Backbone:
    """Return a backbone with trained weights.

    Parameters
    ----------
    name, preprocessing
        As `resolve` takes them, whose errors are raised.
    device : {"auto", "cpu", "cuda"}
        Where it runs; "auto" takes CUDA where ONNX Runtime has it.
    """
    return Backbone.of(resolve(name, preprocessing), device)


def _session(model: bytes | Path, name: str, device: Device) -> onnxruntime.InferenceSession:
    providers = _providers(device, name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = joblib.cpu_count()
    # Threads that wait actively would take the cores from the preprocessing.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = onnxruntime.InferenceSession(model, options, providers=providers)
    except Exception as error:  # ONNX Runtime has no common class for its errors
        raise BackboneError(f"backbone {name}: ONNX Runtime cannot load it: {error}") from error
    if device == "cuda" and _CUDA not in session.get_providers():
        raise BackboneError(
            f"backbone {name}: ONNX Runtime went back to the CPU, because CUDA or cuDNN does not "
            "load; its log above says which library is missing"
        )
    return session


def _providers(device: Device, name: str) -> list[str]:
    """Return ONNX Runtime's names of the devices to try, in this order."""
    has_cuda = _CUDA in onnxruntime.get_available_providers()
    if device == "cuda" and not has_cuda:
        raise BackboneError(
            f"backbone {name}: this ONNX Runtime has no CUDA; run: pip uninstall onnxruntime, then "
            "pip install onnxruntime-gpu"
        )
    if device not in ("auto", "cpu", "cuda"):
        raise BackboneError(f"backbone {name}: device is auto, cpu or cuda, not {device!r}")
    return [_CUDA, _CPU] if has_cuda and device != "cpu" else [_CPU]


def _check_input(
    session: onnxruntime.InferenceSession, preprocessing: Preprocessing, name: str
) -> str:
    """Return the name of the one image input."""
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or len(outputs) != 1:
        raise BackboneError(
            f"backbone {name}: expected one input and one output, got inputs "
            f"{[node.name for node in inputs]} and outputs {[node.name for node in outputs]}; "
            "onnx.utils.extract_model cuts a model down to one of each"
        )
    [node] = inputs
    wanted = ("n", 3, preprocessing.size, preprocessing.size)
    shape = node.shape
    if (
        node.type != "tensor(float)"
        or len(shape) != 4
        or isinstance(shape[0], int)
        or any(
            isinstance(have, int) and have != want
            for have, want in zip(shape[1:], wanted[1:], strict=True)
        )
    ):
        raise BackboneError(
            f"backbone {name}: input {node.name} is {node.type} of shape {shape}; expected "
            f"tensor(float) of shape {list(wanted)} with any n: export the model with channels "
            "first and a dynamic batch axis, and give its input size as Preprocessing.size"
        )
    input_name: str = node.name
    return input_name


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, BATCH_SIZE)):
        yield batch


def _map_ahead(
    pool: Executor, function: Callable[[T], R], items: Iterable[T], *, ahead: int
) -> Iterator[R]:
    """Map in order, with at most ``ahead`` results waiting."""
    pending: deque[Future[R]] = deque()
    for item in items:
        pending.append(pool.submit(function, item))
        if len(pending) > ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()
