import threading

import numpy as np
import pytest
from onnx import TensorProto

from fedcof.backbones import Backbone, Preprocessing
from fedcof.backbones.onnx_engine import OnnxEngine
from fedcof.errors import BackboneError

PREPROCESSING = Preprocessing(size=4, mean=(0.0, 0.0, 0.0), scale=(1.0, 1.0, 1.0))


def uniform_images(values):
    """Images of one colour each: the mean of their pixels is that colour."""
    return np.broadcast_to(
        np.asarray(values, np.uint8)[:, None, None, None], (len(values), 4, 4, 3)
    )


def test_any_onnx_model_gives_its_features(save_model):
    backbone = Backbone.from_onnx(save_model(), PREPROCESSING)
    features = backbone.extract(uniform_images([7, 9]))
    assert backbone.dim == 3
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, [[7, 7, 7], [9, 9, 9]])


def test_feature_maps_are_averaged_over_positions(save_model):
    backbone = Backbone.from_onnx(save_model(op="Relu", flatten=False), PREPROCESSING)
    np.testing.assert_allclose(backbone.extract(uniform_images([7, 9])), [[7] * 3, [9] * 3])


def test_more_images_than_a_batch_keep_their_order(save_model):
    backbone = Backbone.from_onnx(save_model(), PREPROCESSING)
    features = backbone.extract(uniform_images(range(200)))
    np.testing.assert_allclose(features[:, 0], np.arange(200))


def test_images_of_different_sizes_go_together(save_model):
    backbone = Backbone.from_onnx(save_model(), PREPROCESSING)
    images = [np.full((5, 9, 3), 3, np.uint8), np.full((2, 2, 3), 4, np.uint8)]
    np.testing.assert_allclose(backbone.extract(images)[:, 0], [3, 4])


def test_no_images_give_no_features(save_model):
    backbone = Backbone.from_onnx(save_model(), PREPROCESSING)
    assert backbone.extract([]).shape == (0, 3)


def test_images_are_taken_a_few_batches_ahead_and_their_thread_ends(save_model):
    backbone = Backbone.from_onnx(save_model(), PREPROCESSING)
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield np.full((4, 4, 3), 0 if read < 33 else 1, np.uint8)

    class EnoughError(Exception):
        pass

    def stream(batches):
        next(iter(batches))
        raise EnoughError
        yield

    backbone.stream = stream
    with pytest.raises(EnoughError):
        backbone.extract(endless())
    assert read <= 4 * 32
    assert not [t for t in threading.enumerate() if t.name.startswith("fedcof-ahead")]


def test_an_error_in_preparing_reaches_the_caller(save_model):
    backbone = Backbone.from_onnx(save_model(), PREPROCESSING)
    with pytest.raises(ValueError, match="expected an RGB image"):
        backbone.extract(np.zeros((1, 4, 4), np.uint8))


def test_the_fingerprint_is_that_of_the_content_and_not_of_the_name(save_model):
    first = Backbone.from_onnx(save_model("a.onnx"), PREPROCESSING)
    second = Backbone.from_onnx(save_model("b.onnx"), PREPROCESSING)
    assert first.fingerprint == second.fingerprint


def test_other_weights_have_another_fingerprint(save_model):
    first = Backbone.from_onnx(save_model(), PREPROCESSING)
    second = Backbone.from_onnx(save_model(bias=1.0), PREPROCESSING)
    assert first.fingerprint != second.fingerprint


def test_other_preprocessing_has_another_fingerprint(save_model):
    path = save_model()
    first = Backbone.from_onnx(path, PREPROCESSING)
    second = Backbone.from_onnx(path, Preprocessing(size=4))
    assert first.fingerprint != second.fingerprint


def test_weights_in_a_file_beside_the_model_are_part_of_the_fingerprint(save_model):
    path = save_model(external="weights.bin")
    first = Backbone.from_onnx(path, PREPROCESSING)
    path.with_name("weights.bin").write_bytes(np.float32(1).tobytes())
    second = Backbone.from_onnx(path, PREPROCESSING)
    assert first.fingerprint != second.fingerprint


def test_a_missing_model_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no ONNX model at .*absent\.onnx"):
        Backbone.from_onnx(tmp_path / "absent.onnx")


def test_a_file_that_is_no_model_is_refused(tmp_path):
    path = tmp_path / "text.onnx"
    path.write_text("not a model")
    with pytest.raises(BackboneError, match="text: ONNX Runtime cannot load it"):
        Backbone.from_onnx(path)


def test_a_truncated_model_is_refused(save_model):
    path = save_model()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BackboneError, match="tiny"):
        Backbone.from_onnx(path, PREPROCESSING)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"shape": ("n", 4, 4, 3)}, "channels first"),
        ({"shape": (1, 3, 4, 4)}, "dynamic batch axis"),
        ({"shape": ("n", 3, 8, 8)}, r"Preprocessing\.size"),
        ({"shape": ("n", 3, 4)}, "expected tensor"),
        ({"dtype": TensorProto.DOUBLE, "op": "Relu"}, "is tensor.double."),
        ({"outputs": 2}, "one input and one output"),
    ],
    ids=["channels-last", "fixed-batch", "other-size", "rank-3", "double", "two-outputs"],
)
def test_a_model_that_takes_something_else_says_what_to_export(save_model, model, message):
    with pytest.raises(BackboneError, match=message):
        Backbone.from_onnx(save_model(**model), PREPROCESSING)


def test_a_stream_takes_the_memory_of_the_one_before_and_leaves_nothing_of_it(save_model):
    engine = OnnxEngine(save_model(), PREPROCESSING, name="tiny", device="cpu")
    full = np.full((engine.batch_size, 4, 4, 3), 9, np.uint8)
    for batch in (full, full[:1] + 1, full[:3] + 2):
        [found] = engine.stream([batch])
        np.testing.assert_array_equal(found, batch[:, 0, 0].astype(np.float32))


def test_streams_at_a_time_have_memory_of_their_own(save_model):
    engine = OnnxEngine(save_model(), PREPROCESSING, name="tiny", device="cpu")
    images = [np.full((2, 4, 4, 3), value, np.uint8) for value in range(6)]
    streams = [engine.stream(images[:3]), engine.stream(images[3:])]
    for value in range(3):
        assert [next(stream)[0, 0] for stream in streams] == [value, value + 3]


def test_a_batch_beyond_the_memory_for_it_is_refused(save_model):
    engine = OnnxEngine(save_model(), PREPROCESSING, name="tiny", device="cpu")
    with pytest.raises(ValueError, match="at most 32 images: 33"):
        next(engine.stream([np.zeros((33, 4, 4, 3), np.uint8)]))
