"""Torch as what runs a frozen network: CUDA without ONNX Runtime's build for it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedcof.backbones.engine import Features
from fedcof.backbones.preprocessing import ImageArray, Preprocessing
from fedcof.backbones.torch_preprocessing import Prepare
from fedcof.pipeline import ahead

_BATCH_SIZE = {"cpu": 32, "cuda": 256}
_AHEAD = 4
"""Batches that are read while one is computed."""


class TorchEngine:
    """A network in torch and its preprocessing, on the CPU or on CUDA.

    Parameters
    ----------
    module : torch.nn.Module
        From float32 images (n, 3, size, size) to features (n, dim).
    preprocessing : Preprocessing
    device : {"cpu", "cuda"}
    """

    def __init__(self, module: nn.Module, preprocessing: Preprocessing, *, device: str) -> None:
        self._device = torch.device(device)
        self._module = fast_on(module.eval(), self._device)
        self._prepare = Prepare(preprocessing).to(self._device)
        self.batch_size = _BATCH_SIZE[self._device.type]
        size = preprocessing.size
        self.dim = self.infer(np.zeros((1, 3, size, size), np.float32)).shape[1]

    @torch.inference_mode()
    def infer(self, tensor: NDArray[np.float32]) -> Features:
        """Return the features (n, dim) of prepared images (n, 3, size, size)."""
        features: Tensor = self._module(torch.from_numpy(tensor).to(self._device))
        return features.cpu().numpy()

    @torch.inference_mode()
    def stream(self, batches: Iterable[ImageArray]) -> Iterator[Features]:
        """Yield the features (n, dim) of batches as `Preprocessing.as_batch` makes them."""
        tensors = ((self._copied(batch),) for batch in batches)
        with closing(on_device(tensors, self._device)) as waiting:
            yield from on_host(self._module(self._prepare(batch)) for (batch,) in waiting)

    def _copied(self, batch: ImageArray) -> Tensor:
        """Return a batch, which may be a file mapped into memory, where the device takes it from.

        Torch takes no array that cannot be written to.
        """
        on_cuda = self._device.type == "cuda"
        tensor = torch.empty(batch.shape, dtype=torch.uint8, pin_memory=on_cuda)
        tensor.numpy()[...] = batch
        return tensor


def has_cuda() -> bool:
    """Return whether torch sees a device of CUDA."""
    return torch.cuda.is_available()


def fast_on(module: nn.Module, device: torch.device | str) -> nn.Module:
    """Return a network on a device, with channels last; on CUDA in TF32.

    TF32 rounds the factors of products in float32 to 11 bits and sums in float32.
    """
    if torch.device(device).type == "cuda":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    moved: nn.Module = module.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return moved


def on_device(
    batches: Iterable[tuple[Tensor, ...]], device: torch.device
) -> Generator[tuple[Tensor, ...]]:
    """Yield batches on a device; the next ones are read, and copied to CUDA, meanwhile."""

    def pinned() -> Generator[tuple[Tensor, ...]]:
        for batch in batches:
            yield tuple(part.pin_memory() for part in batch) if device.type == "cuda" else batch

    with closing(ahead(pinned(), _AHEAD)) as waiting:
        for batch in waiting:
            yield tuple(part.to(device, non_blocking=True) for part in batch)


def on_host(results: Iterable[Tensor]) -> Iterator[NDArray[np.float32]]:
    """Yield results on the host, each once the next is begun: the device is never out of work."""
    before: Tensor | None = None
    for result in results:
        if before is not None:
            yield before.cpu().numpy()
        before = result
    if before is not None:
        yield before.cpu().numpy()
