"""Torch computes the features that ONNX Runtime computes."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcof.backbones import Backbone, Preprocessing, onnx_engine, resolve
from fedcof.backbones.torch_engine import TorchEngine, fast_on, on_host
from fedcof.backbones.torch_preprocessing import Prepare
from fedcof.errors import BackboneError


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("resampling", ["bilinear", "bicubic", "lanczos", "nearest"])
@pytest.mark.parametrize("shape", [(8, 8), (5, 7), (1, 1), (24, 24)])
def test_a_batch_is_prepared_bit_for_bit(resampling, shape):
    preprocessing = Preprocessing(size=24, resampling=resampling, color_order="BGR")
    images = noise(3, *shape, 3)
    found = Prepare(preprocessing)(torch.from_numpy(images)).numpy()
    np.testing.assert_array_equal(found, np.stack([preprocessing(image) for image in images]))


@pytest.mark.parametrize("color_order", ["RGB", "BGR"])
@pytest.mark.parametrize("side", [8, 24])
def test_a_prepared_batch_has_its_channels_last_as_the_networks_have(side, color_order):
    prepare = Prepare(Preprocessing(size=24, color_order=color_order))
    found = prepare(torch.from_numpy(noise(3, side, side, 3)))
    assert found.is_contiguous(memory_format=torch.channels_last)
    layer = fast_on(torch.nn.Conv2d(3, 4, 3), "cpu")
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)


PREPARE = Prepare(Preprocessing(size=31, resampling="bicubic"))


@given(st.integers(1, 10), st.integers(1, 10), st.integers(0, 5))
def test_small_images_of_any_size_are_prepared_as_pillow_does(height, width, seed):
    image = noise(height, width, 3, seed=seed)
    [found] = PREPARE(torch.from_numpy(image[None])).numpy()
    np.testing.assert_array_equal(found, PREPARE.preprocessing(image))


@pytest.mark.parametrize("size", [16, 64, 90])
def test_features_are_those_of_onnx_runtime(size):
    resolved = resolve("squeezenet1.1", {"size": 64})
    engine = TorchEngine(resolved.module(), resolved.preprocessing, device="cpu")
    in_torch = Backbone(engine, resolved.preprocessing, fingerprint=resolved.fingerprint)
    images = noise(40, size, size, 3)  # more than a batch
    expected = Backbone.of(resolved, "cpu").extract(images)
    assert in_torch.dim == 512
    np.testing.assert_allclose(in_torch.extract(images), expected, rtol=1e-3, atol=1e-4)


def test_pixels_that_cannot_be_written_to_are_taken_without_a_warning():
    images = noise(3, 8, 8, 3)
    images.setflags(write=False)  # as those of a file that is mapped into memory
    preprocessing = Preprocessing(size=8)
    engine = TorchEngine(torch.nn.Flatten(), preprocessing, device="cpu")
    [found] = engine.stream([images])
    expected = np.stack([preprocessing(image) for image in images]).reshape(3, -1)
    np.testing.assert_array_equal(found, expected)


def test_a_result_is_waited_for_once_the_next_is_begun():
    begun = []

    def results():
        for number in range(3):
            begun.append(number)
            yield torch.tensor([number])

    taken = on_host(results())
    assert next(taken) == [0]
    assert begun == [0, 1]
    assert [number.tolist() for number in taken] == [[1], [2]]


def test_cuda_runs_in_torch_where_onnx_runtime_has_none(monkeypatch):
    asked = []

    class Engine(TorchEngine):
        def __init__(self, module, preprocessing, *, device):
            asked.append(device)
            super().__init__(module, preprocessing, device="cpu")

    monkeypatch.setattr(onnx_engine, "has_cuda", lambda: False)
    monkeypatch.setattr("fedcof.backbones.torch_engine.has_cuda", lambda: True)
    monkeypatch.setattr("fedcof.backbones.torch_engine.TorchEngine", Engine)
    assert Backbone.of(resolve("squeezenet1.1", {"size": 64}), "cuda").dim == 512
    assert asked == ["cuda"]


def test_cuda_that_is_nowhere_is_said(monkeypatch):
    monkeypatch.setattr(onnx_engine, "has_cuda", lambda: False)
    monkeypatch.setattr("fedcof.backbones.torch_engine.has_cuda", lambda: False)
    with pytest.raises(BackboneError, match="no CUDA, and torch with CUDA"):
        Backbone.of(resolve("squeezenet1.1"), "cuda")


def test_an_engine_needs_a_fingerprint():
    resolved = resolve("squeezenet1.1", {"size": 64})
    engine = TorchEngine(resolved.module(), resolved.preprocessing, device="cpu")
    with pytest.raises(ValueError, match="fingerprint"):
        Backbone(engine, resolved.preprocessing)
