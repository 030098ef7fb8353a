"""Backbones in torch: the same network as on ONNX Runtime, which can be trained."""

import pytest

pytest.importorskip("torch")

import onnx
import torch

from fedcof.backbones import Preprocessing
from fedcof.backbones.torch_backbone import network
from fedcof.errors import BackboneError, NoWeightsError
from tiny_networks import save_resnet, save_vit

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:transformers.*"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def vit_folder(tmp_path_factory):
    """A tiny ViT in the format of transformers."""
    return save_vit(tmp_path_factory.mktemp("vit"))


@pytest.fixture(scope="module")
def resnet_folder(tmp_path_factory):
    """A tiny ResNet in the format of transformers."""
    return save_resnet(tmp_path_factory.mktemp("resnet"))


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A folder for weights and a cache; nothing is fetched from anywhere."""
    monkeypatch.setenv("FEDCOF_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


def test_a_resnet_of_transformers_is_a_backbone(resnet_folder):
    backbone = network(str(resnet_folder))
    batch = torch.zeros(2, 3, 32, 32)
    assert backbone.preprocessing.size == 32
    assert backbone.module(batch).shape == (2, backbone.dim) == (2, 12)


def test_a_vit_of_transformers_gives_its_class_token(vit_folder):
    from transformers import ViTModel

    backbone = network(str(vit_folder))
    assert backbone.preprocessing == Preprocessing(size=32, mean=(127.5,) * 3, scale=(127.5,) * 3)
    batch = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        original = ViTModel.from_pretrained(vit_folder, add_pooling_layer=False).eval()
        token = original(batch).last_hidden_state[:, 0]
        torch.testing.assert_close(backbone.module.eval()(batch), token)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(NoWeightsError, match=r"config\.json"):
        network(str(tmp_path))


def test_random_weights_are_the_same_for_a_seed():
    first, again, other = (
        network("squeezenet1.1", pretrained=False, seed=seed) for seed in (0, 0, 1)
    )
    assert first.fingerprint == again.fingerprint != other.fingerprint
    torch.testing.assert_close(first.module.conv1.weight, again.module.conv1.weight, rtol=0, atol=0)
    assert not torch.equal(first.module.conv1.weight, other.module.conv1.weight)


def test_random_weights_are_for_squeezenet():
    with pytest.raises(ValueError, match="squeezenet"):
        network("resnet18", pretrained=False)


def test_random_weights_and_another_image_size_have_other_fingerprints():
    backbones = [
        network("squeezenet1.1"),
        network("squeezenet1.1", preprocessing={"size": 64}),
        network("squeezenet1.1", pretrained=False),
        network("squeezenet1.1", pretrained=False, preprocessing={"size": 64}),
    ]
    assert len({backbone.fingerprint for backbone in backbones}) == 4


def test_regression_an_onnx_file_is_not_passed_over_in_silence_for_weights_that_can_be_trained(
    weights, resnet_folder
):
    # Features came from NAME.onnx then, and the network that was trained from the folder NAME.
    (weights / "resnet18").symlink_to(resnet_folder)
    (weights / "resnet18.onnx").write_bytes(onnx.ModelProto().SerializeToString())
    with pytest.raises(BackboneError, match=r"resnet18\.onnx cannot be trained") as caught:
        network("resnet18")
    assert f"the folder {weights / 'resnet18'}" in str(caught.value)


def test_an_onnx_file_that_goes_by_its_path_cannot_be_trained(tmp_path):
    path = tmp_path / "mine.onnx"
    path.write_bytes(onnx.ModelProto().SerializeToString())
    with pytest.raises(BackboneError, match=r"mine\.onnx cannot be trained.*folder or model id"):
        network(str(path))


def test_an_unknown_name_is_refused_as_by_the_other_runtime():
    with pytest.raises(ValueError, match=r"did you mean squeezenet1\.1"):
        network("squeezenet")


def test_trained_weights_do_not_change_the_fingerprint_of_what_they_were_trained_from():
    backbone = network("squeezenet1.1", preprocessing={"size": 64})
    with torch.no_grad():
        backbone.module.conv1.weight.zero_()
    assert network("squeezenet1.1", preprocessing={"size": 64}).fingerprint == backbone.fingerprint
