"""The preprocessing as a graph gives what the preprocessing gives, to the last bit."""

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof.backbones import Preprocessing
from fedcof.backbones.onnx_preprocessing import preprocessing_graph


def session(preprocessing, opset=17):
    model = preprocessing_graph(preprocessing, opset=opset, ir_version=8)
    return onnxruntime.InferenceSession(model.SerializeToString())


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


SIZES = [(32, 32), (24, 24), (97, 61), (25, 23), (1, 1), (3, 200), (200, 24), (150, 230)]


@pytest.mark.parametrize("resampling", ["bilinear", "bicubic", "lanczos", "nearest"])
@pytest.mark.parametrize("opset", [13, 17, 21])
def test_every_filter_is_pillows_bit_for_bit(resampling, opset):
    preprocessing = Preprocessing(size=24, resampling=resampling)
    graph = session(preprocessing, opset)
    for height, width in SIZES:
        images = noise(2, height, width, 3)
        [found] = graph.run(None, {"image": images})
        np.testing.assert_array_equal(found, np.stack([preprocessing(image) for image in images]))


@given(st.integers(1, 90), st.integers(1, 90), st.integers(0, 5))
def test_images_of_any_size_are_resized_as_pillow_does(height, width, seed):
    image = noise(height, width, 3, seed=seed)
    [found] = GRAPH.run(None, {"image": image[None]})
    np.testing.assert_array_equal(found[0], PREPROCESSING(image))


PREPROCESSING = Preprocessing(size=17, resampling="bicubic")
GRAPH = session(PREPROCESSING)


@pytest.mark.parametrize("edge", [0, 255])
def test_an_edge_that_a_filter_overshoots_is_clipped(edge):
    preprocessing = Preprocessing(size=31, resampling="lanczos")
    image = np.full((13, 13, 3), edge, np.uint8)
    image[5:] = 255 - edge
    [found] = session(preprocessing).run(None, {"image": image[None]})
    np.testing.assert_array_equal(found[0], preprocessing(image))


def test_colours_in_the_networks_order_are_normalised_in_the_graph():
    preprocessing = Preprocessing(
        size=4, color_order="BGR", mean=(103.939, 116.779, 123.68), scale=(1.0, 58.395, 0.1)
    )
    image = noise(4, 4, 3)
    [found] = session(preprocessing).run(None, {"image": image[None]})
    np.testing.assert_array_equal(found[0], preprocessing(image))


def test_colours_are_not_scaled_where_the_scale_is_one():
    preprocessing = Preprocessing(size=4, mean=(103.939, 116.779, 123.68), scale=(1.0, 1.0, 1.0))
    model = preprocessing_graph(preprocessing, opset=17, ir_version=8, resize=False)
    assert "Mul" not in {node.op_type for node in model.graph.node}
    image = noise(4, 4, 3)
    [found] = session(preprocessing).run(None, {"image": image[None]})
    np.testing.assert_array_equal(found[0], preprocessing(image))
