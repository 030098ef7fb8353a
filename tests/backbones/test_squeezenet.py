import pytest

pytest.importorskip("skimage")

import pickle

import numpy as np
import skimage.data

from fedcof.backbones import BACKBONES, Backbone, get
from fedcof.backbones.squeezenet1_1 import (
    PREPROCESSING,
    read_weights,
    squeezenet_model,
)

PATH = BACKBONES["squeezenet1.1"].package.path()
CATS = {281, 282, 283, 284, 285}
CUPS = {504, 967, 968}


@pytest.fixture(scope="module")
def classifier():
    weights = read_weights(PATH.read_bytes())
    return Backbone(squeezenet_model(weights, classifier=True), PREPROCESSING, name="classifier")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def backbone(cache, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(cache))
    return get("squeezenet1.1")


def test_a_cat_gets_its_imagenet_class(classifier):
    logits = classifier.extract(skimage.data.chelsea()[None])
    assert int(logits.argmax()) in CATS


def test_a_cup_of_coffee_gets_its_imagenet_class(classifier):
    logits = classifier.extract(skimage.data.coffee()[None])
    assert int(logits.argmax()) in CUPS


def test_features_are_what_the_classifier_sees(backbone, classifier):
    # conv10 is 1 x 1, so it commutes with the average over positions.
    weights = read_weights(PATH.read_bytes())
    kernel, bias = weights["conv10"]
    cat = skimage.data.chelsea()[None]
    logits = backbone.extract(cat) @ kernel[0, 0] + bias
    np.testing.assert_allclose(logits, classifier.extract(cat), rtol=1e-3, atol=1e-3)


def test_features_have_512_float32_numbers_that_are_not_negative(backbone):
    features = backbone.extract(skimage.data.chelsea()[None])
    assert backbone.dim == 512
    assert features.shape == (1, 512)
    assert features.dtype == np.float32
    assert features.min() >= 0


def test_the_model_is_built_once_and_then_read_from_the_cache(backbone, monkeypatch):
    monkeypatch.setattr("fedcof.backbones.squeezenet1_1.squeezenet_model", None)
    assert get("squeezenet1.1").fingerprint == backbone.fingerprint


def test_a_damaged_cached_model_is_named_and_built_again(backbone, cache):
    [path] = (cache / "models").iterdir()
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.warns(RuntimeWarning, match=f"{path.name} is damaged"):
        again = get("squeezenet1.1")
    assert again.fingerprint == backbone.fingerprint


class _Malicious:
    def __reduce__(self):
        return exec, ("print('code ran')",)


def test_a_malicious_pickle_is_refused_and_does_not_run(capsys):
    with pytest.raises(pickle.UnpicklingError, match=r"builtins\.exec"):
        read_weights(pickle.dumps({"conv1": [_Malicious()]}))
    assert capsys.readouterr().out == ""


def test_pickled_arrays_of_this_numpy_are_read():
    weights = read_weights(pickle.dumps({"conv1": [np.arange(3.0)]}))
    np.testing.assert_array_equal(weights["conv1"][0], [0, 1, 2])
