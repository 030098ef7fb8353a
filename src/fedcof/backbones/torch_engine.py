"""Torch as what runs a frozen network: CUDA without ONNX Runtime's build for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedcof.backbones.engine import Features
from fedcof.backbones.preprocessing import ImageArray, Preprocessing
from fedcof.backbones.torch_preprocessing import Prepare

_BATCH_SIZE = {"cpu": 32, "cuda": 256}


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
        """Yield the features (n, dim) of batches as `Preprocessing.as_batch` makes them.

        A batch is on its way while the one before is computed, which is waited for only then.
        """
        before: Tensor | None = None
        for batch in batches:
            features = self._module(self._prepare(to_device(torch.from_numpy(batch), self._device)))
            if before is not None:
                yield before.cpu().numpy()
            before = features
        if before is not None:
            yield before.cpu().numpy()


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


def to_device(batch: Tensor, device: torch.device) -> Tensor:
    """Return a batch on a device; to CUDA it is copied while the process goes on."""
    if device.type != "cuda":
        return batch.to(device)
    return batch.pin_memory().to(device, non_blocking=True)
