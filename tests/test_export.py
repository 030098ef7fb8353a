"""An exported head, run by the tool that it is for, says what the head says."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser
from PIL import Image

from fedcof import LinearHead
from fedcof.backbones import Backbone, resolve
from fedcof.errors import BackboneError, HeadError
from fedcof.export import to_onnx, to_torch
from fedcof.transforms import parse


def session(model):
    return onnxruntime.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize("bias", [None, np.array([0.5, -0.25, 0.0])])
@pytest.mark.parametrize("classes", [["a", "b", "ü"], [-7, 0, 2**53 + 1]])
def test_onnx_runtime_gives_the_same_scores_and_labels_of_features(rng, bias, classes):
    head = LinearHead(rng.normal(size=(3, 5)), np.array(classes), bias)
    features = rng.normal(size=(7, 5)).astype(np.float32)
    found = session(to_onnx(head))
    scores, labels = found.run(["scores", "label"], {"features": features})
    np.testing.assert_allclose(scores, head.decision_function(features), rtol=1e-5, atol=1e-5)
    assert labels.tolist() == head.predict(features).tolist()
    metadata = found.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["classes"]) == classes


def test_probabilities_are_given_where_the_head_has_them(rng):
    weight, features = rng.normal(size=(3, 5)), rng.normal(size=(4, 5)).astype(np.float32)
    head = LinearHead(weight, np.arange(3), probabilistic=True)
    [probabilities] = session(to_onnx(head)).run(["probabilities"], {"features": features})
    np.testing.assert_allclose(probabilities, head.predict_proba(features), atol=1e-6)
    plain = to_onnx(LinearHead(weight, np.arange(3)))
    assert [output.name for output in plain.graph.output] == ["scores", "label"]


MAPS = """
<ir_version: 8, opset_import: ["" : {opset}]>
tiny (float[batch, 3, 8, 8] image) => (float[batch, 4, {rest}] features) {{
    maps = Conv <kernel_shape = [3, 3], strides = [2, 2]> (image, kernel)
    {last}
}}
"""


def tiny(folder, opset=17, *, maps=True):
    """A network of one convolution, to maps or to features of length 4."""
    last = (
        "features = Relu (maps)" if maps else "f = GlobalAveragePool (maps) features = Flatten(f)"
    )
    text = MAPS.format(opset=opset, last=last, rest="3, 3")
    if not maps:
        text = text.replace("4, 3, 3] features", "4] features")
    model = parser.parse_model(text)
    kernel = np.random.default_rng(1).normal(size=(4, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(kernel, "kernel"))
    onnx.save_model(model, folder / "tiny.onnx")
    settings = '{"size": 8, "resampling": "bicubic", "color_order": "BGR"}'
    (folder / "tiny.json").write_text(settings)
    return resolve(str(folder / "tiny.onnx"))


@pytest.mark.parametrize("opset", [11, 13, 17, 21])
@pytest.mark.parametrize("maps", [True, False])
def test_a_model_with_its_backbone_takes_images_of_any_size(tmp_path, rng, opset, maps):
    backbone = tiny(tmp_path, opset, maps=maps)
    head = LinearHead(rng.normal(size=(3, 4)), np.array(["cat", "dog", "owl"]))
    found = session(to_onnx(head, backbone))
    for height, width in [(8, 8), (40, 13), (5, 30)]:
        images = rng.integers(0, 256, (3, height, width, 3), dtype=np.uint8)
        features = Backbone.of(backbone).extract(images)
        scores, labels = found.run(["scores", "label"], {"image": images})
        np.testing.assert_allclose(scores, head.decision_function(features), rtol=1e-4, atol=1e-5)
        assert labels.tolist() == head.predict(features).tolist()


def test_squeezenet_says_of_a_photograph_what_predict_says(rng):
    backbone = resolve("squeezenet1.1")
    head = LinearHead(rng.normal(size=(2, 512)), np.array(["cat", "dog"]))
    noise = rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)
    image = np.asarray(Image.fromarray(noise).resize((300, 201), Image.Resampling.BICUBIC))
    features = Backbone.of(backbone).extract([image])
    scores, labels = session(to_onnx(head, backbone)).run(None, {"image": image[None]})
    np.testing.assert_allclose(scores, head.decision_function(features), rtol=1e-3, atol=1e-4)
    assert labels.tolist() == head.predict(features).tolist()


def test_a_backbone_of_other_length_is_refused(tmp_path):
    head = LinearHead(np.ones((2, 5)), np.arange(2))
    with pytest.raises(HeadError, match=r"length 5, the backbone tiny gives 4"):
        to_onnx(head, tiny(tmp_path))


def test_a_backbone_that_onnx_cannot_convert_is_refused_in_a_sentence(tmp_path, monkeypatch):
    def fails(model, version):
        raise RuntimeError("no adapter")

    monkeypatch.setattr(onnx.version_converter, "convert_version", fails)
    head = LinearHead(np.ones((2, 4)), np.arange(2))
    with pytest.raises(BackboneError, match=r"tiny: ONNX cannot bring it from opset .*no adapter"):
        to_onnx(head, tiny(tmp_path, 11))


@pytest.mark.parametrize("bias", [None, np.array([0.5, -0.25])])
def test_torch_gives_the_same_scores(rng, bias):
    torch = pytest.importorskip("torch")
    head = LinearHead(rng.normal(size=(2, 5)), np.array([0, 1]), bias)
    features = rng.normal(size=(7, 5)).astype(np.float32)
    layer = to_torch(head)
    assert (layer.bias is None) == (bias is None)
    with torch.no_grad():
        scores = layer(torch.tensor(features)).numpy()
    np.testing.assert_allclose(scores, head.decision_function(features), rtol=1e-5, atol=1e-5)


TRANSFORMS = [
    "power:0.5",
    "power:0.3+standardize",
    "power:0.5+clip:1.5",
    "standardize+random-features:6:1:relu:5",
    "power:0.5+standardize+random-features:7:0:relu:5",
    "standardize+buckets:2:3:1:5",
]


def transformed_head(rng, text, dim=5):
    transform = parse(text)
    weight = rng.normal(size=(3, transform.output_dim(dim)))
    return LinearHead(weight, np.array(["a", "b", "c"]), transform=transform)


def with_a_row_of_equal_values(rng):
    features = rng.normal(size=(9, 5)).astype(np.float32)
    features[0], features[1, 0] = 0.1, 0
    return features


@pytest.mark.parametrize("text", TRANSFORMS)
def test_onnx_runtime_transforms_features_as_the_head_does(rng, text):
    head, features = transformed_head(rng, text), with_a_row_of_equal_values(rng)
    scores, labels = session(to_onnx(head)).run(["scores", "label"], {"features": features})
    np.testing.assert_allclose(scores, head.decision_function(features), rtol=1e-4, atol=1e-4)
    assert labels.tolist() == head.predict(features).tolist()


@pytest.mark.parametrize("opset", [11, 13, 17, 21])
def test_a_model_with_its_backbone_has_the_transform(tmp_path, rng, opset):
    backbone = tiny(tmp_path, opset)
    text = "power:0.5+standardize+random-features:7:0:relu:4"
    head = transformed_head(rng, text, dim=4)
    images = rng.integers(0, 256, (5, 12, 9, 3), dtype=np.uint8)
    features = Backbone.of(backbone).extract(images)
    scores, labels = session(to_onnx(head, backbone)).run(None, {"image": images})
    np.testing.assert_allclose(scores, head.decision_function(features), rtol=1e-3, atol=1e-3)
    assert labels.tolist() == head.predict(features).tolist()


@pytest.mark.parametrize("text", TRANSFORMS)
def test_torch_transforms_features_as_the_head_does(rng, text):
    torch = pytest.importorskip("torch")
    head, features = transformed_head(rng, text), with_a_row_of_equal_values(rng)
    layers = to_torch(head)
    with torch.no_grad():
        scores = layers(torch.tensor(features)).numpy()
    np.testing.assert_allclose(scores, head.decision_function(features), rtol=1e-4, atol=1e-4)
    assert set(layers.state_dict()) == {"1.weight"}
