"""ONNX Runtime as what runs a frozen network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import joblib
import numpy as np
import onnxruntime
from numpy.typing import NDArray

from fedcof.backbones.engine import Device, Features
from fedcof.backbones.onnx_preprocessing import preprocessing_graph
from fedcof.backbones.preprocessing import ImageArray, Preprocessing
from fedcof.errors import BackboneError

_CPU = "CPUExecutionProvider"
_CUDA = "CUDAExecutionProvider"
_BATCH_SIZE = {"cpu": 32, "cuda": 256}
_IN_CACHE = 2


class OnnxEngine:
    """A network in ONNX and its preprocessing, on the CPU or on CUDA.

    Parameters
    ----------
    model : bytes or path
        A serialised ONNX model or its file.
    preprocessing : Preprocessing
    name : str
        Of the backbone, for errors.
    device : {"auto", "cpu", "cuda"}

    Raises
    ------
    BackboneError
        If the model cannot be loaded, or takes or gives something else, or if there is no CUDA
        for it.
    """

    def __init__(
        self, model: bytes | Path, preprocessing: Preprocessing, *, name: str, device: Device
    ) -> None:
        self._preprocessing = preprocessing
        self._session = _session(model, name, device)
        on_cuda = _CUDA in self._session.get_providers()
        self._place = "cuda" if on_cuda else "cpu"
        self.batch_size = _BATCH_SIZE[self._place]
        self._spaces: list[onnxruntime.OrtValue] = []
        self._input = _check_input(self._session, preprocessing, name)
        self.dim = _measure_dim(self._session, self._input, preprocessing.size, name)

    def infer(self, tensor: NDArray[np.float32]) -> Features:
        """Return the features (n, dim) of prepared images (n, 3, size, size)."""
        return _pooled(self._session.run(None, {self._input: tensor})[0])

    def stream(self, batches: Iterable[ImageArray]) -> Iterator[Features]:
        """Yield the features (n, dim) of batches as `Preprocessing.as_batch` makes them."""
        with self._space() as prepared:
            for batch in batches:
                if len(batch) > prepared.shape()[0]:  # ONNX Runtime would write beyond its end
                    raise ValueError(f"a batch has at most {self.batch_size} images: {len(batch)}")
                self._prepare(batch, prepared)
                yield self._features(prepared, len(batch))

    def _features(self, prepared: onnxruntime.OrtValue, count: int) -> Features:
        """Return the features of the first of some prepared images."""
        binding = self._session.io_binding()
        binding.bind_input(
            self._input,
            self._place,
            0,
            np.float32,
            (count, *prepared.shape()[1:]),
            prepared.data_ptr(),
        )
        binding.bind_output(self._session.get_outputs()[0].name)
        self._session.run_with_iobinding(binding)
        return _pooled(binding.copy_outputs_to_cpu()[0])

    @contextmanager
    def _space(self) -> Iterator[onnxruntime.OrtValue]:
        """Lend memory for a batch of prepared images where the network runs.

        It is kept for the next stream: to touch new memory costs as much as to prepare the images.
        """
        try:
            space = self._spaces.pop()
        except IndexError:
            size = self._preprocessing.size
            space = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                (self.batch_size, 3, size, size), np.float32, self._place
            )
        try:
            yield space
        finally:
            self._spaces.append(space)

    def _prepare(self, batch: ImageArray, prepared: onnxruntime.OrtValue) -> None:
        """Prepare a batch where the network runs: on the CPU a few images at a time.

        What is computed of a few images stays in the processor's cache.
        """
        size = self._preprocessing.size
        full = batch.shape[1:3] == (size, size)
        preparing = self._of_full_size if full else self._of_small
        step = len(batch) if self._place == "cuda" else _IN_CACHE
        for start in range(0, len(batch), step):
            part = np.ascontiguousarray(batch[start : start + step])
            binding = preparing.io_binding()
            binding.bind_cpu_input("image", part)
            binding.bind_output(
                "input",
                self._place,
                element_type=np.float32,
                shape=(len(part), 3, size, size),
                buffer_ptr=prepared.data_ptr() + start * 3 * size * size * 4,
            )
            preparing.run_with_iobinding(binding)

    @cached_property
    def _of_full_size(self) -> onnxruntime.InferenceSession:
        return self._preparing(resize=False)

    @cached_property
    def _of_small(self) -> onnxruntime.InferenceSession:
        return self._preparing(resize=True)

    def _preparing(self, *, resize: bool) -> onnxruntime.InferenceSession:
        model = preprocessing_graph(self._preprocessing, opset=17, ir_version=8, resize=resize)
        # Of a few images without a resize, sharing the work among threads takes longer than it.
        options = _options(joblib.cpu_count() if resize else 1)
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=self._session.get_providers()
        )


def has_cuda() -> bool:
    """Return whether this ONNX Runtime was built for CUDA."""
    return _CUDA in onnxruntime.get_available_providers()


def _pooled(output: Features) -> Features:
    return output.mean(axis=(2, 3)) if output.ndim == 4 else output


def _options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Threads that wait actively would take the cores from the decoding.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _session(model: bytes | Path, name: str, device: Device) -> onnxruntime.InferenceSession:
    providers = _providers(device, name)
    try:
        options = _options(joblib.cpu_count())
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
    if device == "cuda" and not has_cuda():
        raise BackboneError(
            f"backbone {name}: this ONNX Runtime has no CUDA, and torch with CUDA is not here or "
            "cannot run it; install torch with CUDA, or run: pip uninstall onnxruntime, then pip "
            "install onnxruntime-gpu"
        )
    if device not in ("auto", "cpu", "cuda"):
        raise BackboneError(f"backbone {name}: device is auto, cpu or cuda, not {device!r}")
    return [_CUDA, _CPU] if has_cuda() and device != "cpu" else [_CPU]


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


def _measure_dim(
    session: onnxruntime.InferenceSession, input_name: str, size: int, name: str
) -> int:
    try:
        output = session.run(None, {input_name: np.zeros((2, 3, size, size), np.float32)})[0]
    except Exception as error:
        raise BackboneError(
            f"backbone {name}: the model does not run on two {size} x {size} images "
            f"({error}); does Preprocessing.size fit it?"
        ) from error
    if output.ndim not in (2, 4) or output.shape[0] != 2:
        raise BackboneError(
            f"backbone {name}: the output for 2 images has shape {output.shape}; expected "
            "features (2, dim) or maps (2, dim, height, width). Export the model up to its "
            "pooled features"
        )
    if output.dtype != np.float32:
        raise BackboneError(f"backbone {name}: the output is {output.dtype}, expected float32")
    return int(output.shape[1])
