import numpy as np
import pytest
from PIL import Image

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


@pytest.mark.parametrize("shape", [(299, 400), (400, 299)])
def test_the_centre_of_an_image_at_its_shorter_side_is_cut_out(shape):
    """Half a pixel goes to the even one, as in torchvision: (299 - 224) / 2 = 37.5 is 38."""
    height, width = shape
    image = np.zeros((height, width, 3), np.uint8)
    image[..., 0], image[..., 1] = np.mgrid[:height, :width] % 256
    plain = {"mean": (0, 0, 0), "scale": (1, 1, 1)}
    tensor = Preprocessing(size=224, shorter_side=299, **plain)(image)
    top, left = (38, 88) if height == 299 else (88, 38)
    cut = image[top : top + 224, left : left + 224]
    np.testing.assert_array_equal(tensor, cut.transpose(2, 0, 1))


def test_the_shorter_side_is_resized_and_the_ratio_kept():
    """A circle stays one where a squashed image would have an ellipse."""
    rows, columns = np.mgrid[:60, :120]
    circle = ((rows - 29.5) ** 2 + (columns - 59.5) ** 2 < 20**2) * np.uint8(255)
    image = np.repeat(circle[..., None], 3, axis=2)
    bright = Preprocessing(size=224, shorter_side=299)(image)[0] > 0
    assert abs(int(bright.any(axis=0).sum()) - int(bright.any(axis=1).sum())) <= 2


def test_a_cut_larger_than_the_shorter_side_is_refused():
    with pytest.raises(ValueError, match="shorter_side must be at least size, 224 pixels"):
        Preprocessing(shorter_side=223)


@pytest.mark.parametrize("shorter_side", [None, 10])
@pytest.mark.parametrize("shape", [(8, 8), (5, 7), (40, 30), (10, 10)])
def test_a_picture_of_pillow_is_resized_as_its_pixels_are(shape, shorter_side):
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    preprocessing = Preprocessing(size=8, shorter_side=shorter_side)
    found = preprocessing.resize(Image.fromarray(image))
    np.testing.assert_array_equal(found, preprocessing.resize(image))


def test_a_picture_of_pillow_in_other_colours_is_refused():
    with pytest.raises(ValueError, match="RGB picture of Pillow, not one of the mode CMYK"):
        Preprocessing(size=8).resize(Image.new("CMYK", (9, 9)))
