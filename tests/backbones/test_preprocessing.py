import numpy as np
import pytest

from fedcof.backbones import Preprocessing

PLAIN = {"mean": (0.0, 0.0, 0.0), "scale": (1.0, 1.0, 1.0)}


def test_an_image_of_the_right_size_is_only_normalised():
    image = np.array([[[10, 20, 30]]], dtype=np.uint8)
    tensor = Preprocessing(size=1, mean=(1, 2, 3), scale=(1, 2, 4))(image)
    np.testing.assert_allclose(tensor[:, 0, 0], [9, 9, 6.75])


def test_bgr_reverses_the_channels_before_the_mean_is_taken():
    image = np.array([[[10, 20, 30]]], dtype=np.uint8)
    tensor = Preprocessing(size=1, color_order="BGR", mean=(1, 2, 3), scale=(1, 1, 1))(image)
    np.testing.assert_array_equal(tensor[:, 0, 0], [29, 18, 7])


def test_a_resize_keeps_rows_rows_and_columns_columns():
    image = np.zeros((4, 4, 3), dtype=np.uint8)
    image[:2] = 255
    tensor = Preprocessing(size=2, resampling="nearest", **PLAIN)(image)
    np.testing.assert_array_equal(tensor[0], [[255, 255], [0, 0]])


def test_the_tensor_is_contiguous_float32():
    tensor = Preprocessing(size=5)(np.zeros((7, 3, 3), dtype=np.uint8))
    assert tensor.shape == (3, 5, 5)
    assert tensor.dtype == np.float32
    assert tensor.flags.c_contiguous


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        np.zeros((0, 4, 3), np.uint8),
    ],
    ids=["grey", "rgba", "float", "empty"],
)
def test_anything_but_rgb_pixels_is_refused(image):
    with pytest.raises(ValueError, match="expected an RGB image"):
        Preprocessing()(image)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", 0),
        ("resampling", "cubic"),
        ("color_order", "GBR"),
        ("mean", (1.0, 2.0)),
        ("mean", (1.0, 2.0, float("nan"))),
        ("scale", (1.0, 0.0, 1.0)),
    ],
)
def test_a_wrong_field_is_named(field, value):
    with pytest.raises(ValueError, match=f"Preprocessing.{field}"):
        Preprocessing(**{field: value})
