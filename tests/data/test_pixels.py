import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st
from pictures import encode, png, tiff
from PIL import Image

from fedcof.data import Window, Windowed, read_image
from fedcof.data.pixels import to_levels, to_rgb
from fedcof.errors import SettingError, UnreadableImageError

TWELVE_BITS = np.arange(4096, dtype=np.uint16).reshape(64, 64)
"""Every value of a sensor of 12 bits once."""

COLOUR = np.stack([TWELVE_BITS, TWELVE_BITS.T, TWELVE_BITS[::-1]], axis=2)


def test_a_window_is_read_from_a_text():
    assert Window.parse("-160:240") == Window(-160, 240)
    assert Window.parse("0.5:1e3") == Window(0.5, 1000)
    assert Window.parse("") is None
    assert str(Window(-160, 240)) == "-160:240"


@pytest.mark.parametrize("text", ["5", "5:5", "9:1", "a:b", "1:2:3", ":", "0:inf", "nan:1"])
def test_a_window_that_is_no_range_is_refused(text):
    with pytest.raises(SettingError, match="window must be LOW:HIGH"):
        Window.parse(text)


DEEP = {
    "array": TWELVE_BITS,
    "array-of-int64": TWELVE_BITS.astype(np.int64),
    "big-endian-array": TWELVE_BITS.astype(">u2"),
    "grey-with-axis": TWELVE_BITS[:, :, None],
    "pillow": Image.fromarray(TWELVE_BITS),
    "png": png(TWELVE_BITS),
    "tiff": tiff(TWELVE_BITS),
    "big-endian-tiff": tiff(TWELVE_BITS, order=">"),
    "tiff-of-pillow": encode(Image.fromarray(TWELVE_BITS), "TIFF", compression="tiff_lzw"),
    "tiff-of-int16": tiff(TWELVE_BITS.astype(np.int16)),
    "tiff-of-int32": tiff(TWELVE_BITS.astype(np.int32)),
    "tiff-of-uint32": tiff(TWELVE_BITS.astype(np.uint32)),
    "white-is-zero": tiff(4095 - TWELVE_BITS, photometric=0),
    "pgm": b"P5 64 64 65535\n" + TWELVE_BITS.astype(">u2").tobytes(),
}


@pytest.mark.parametrize("source", DEEP.values(), ids=list(DEEP))
def test_a_deep_picture_has_the_same_levels_in_every_form(source):
    levels = read_image(source)
    expected = np.rint(TWELVE_BITS / 4095 * 255)
    np.testing.assert_array_equal(levels, np.repeat(expected[:, :, None], 3, axis=2))


@pytest.mark.parametrize(
    "source",
    [
        COLOUR,
        png(COLOUR),
        tiff(COLOUR),
        tiff(COLOUR, order=">"),
        b"P6 64 64 65535\n" + COLOUR.astype(">u2").tobytes(),
    ],
    ids=["array", "png", "tiff", "big-endian-tiff", "ppm"],
)
def test_a_deep_colour_picture_keeps_its_levels_and_its_colours(source):
    np.testing.assert_array_equal(read_image(source), np.rint(COLOUR / 4095 * 255))


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate"])
def test_a_compressed_deep_colour_tiff_keeps_its_levels(compression):
    tifffile = pytest.importorskip("tifffile")
    file = io.BytesIO()
    tifffile.imwrite(file, COLOUR, photometric="rgb", compression="zlib", tile=(16, 16))
    np.testing.assert_array_equal(read_image(file.getvalue()), np.rint(COLOUR / 4095 * 255))


@pytest.mark.parametrize("write", [np.asarray, png, tiff], ids=["array", "png", "tiff"])
def test_the_transparent_pixels_of_a_deep_picture_are_white(write):
    alpha = np.full((64, 64), 65535, np.uint16)
    alpha[0] = 0
    levels = read_image(write(np.dstack([COLOUR, alpha])))
    expected = np.rint(COLOUR / 4095 * 255)
    expected[0] = 255
    np.testing.assert_array_equal(levels, expected)


def test_a_deep_grey_picture_with_alpha_keeps_its_levels():
    alpha = np.full((64, 64), 65535, np.uint16)
    alpha[0] = 0
    levels = read_image(png(np.dstack([TWELVE_BITS, alpha])))
    expected = np.rint(TWELVE_BITS / 4095 * 255)
    expected[0] = 255
    np.testing.assert_array_equal(levels[:, :, 0], expected)


def test_a_camera_rotation_is_applied_to_deep_pictures():
    exif = Image.new("L", (1, 1)).getexif()
    exif[0x0112] = 6
    wide = TWELVE_BITS[:2]
    content = encode(Image.fromarray(wide), "PNG", exif=exif)
    expected = np.rint(np.rot90(wide, -1) / 127 * 255)
    np.testing.assert_array_equal(read_image(content)[:, :, 0], expected)


def test_values_above_the_signed_range_are_not_negative():
    high = (TWELVE_BITS + np.uint32(3_000_000_000)).astype(np.uint32)
    np.testing.assert_array_equal(read_image(tiff(high)), read_image(TWELVE_BITS))


def test_signed_bytes_are_not_unsigned():
    signed = np.arange(-128, 128).reshape(16, 16).astype(np.int8)
    for source in (signed, tiff(signed)):
        np.testing.assert_array_equal(read_image(source)[:, :, 0].ravel(), np.arange(256))


def test_deep_planes_that_pillow_takes_for_8_bits_are_refused():
    with pytest.raises(UnreadableImageError, match="separate planes"):
        read_image(tiff(COLOUR, planar=True))


@pytest.mark.parametrize("value", [0, 257, 65535])
def test_a_deep_picture_of_one_value_is_black(value):
    assert not read_image(np.full((3, 3), value, np.uint16)).any()


def test_a_window_gives_pictures_one_scale():
    dark, bright = TWELVE_BITS // 4, TWELVE_BITS
    window = Window(0, 4095)
    assert read_image(Windowed(dark, window)).max() == 64
    assert read_image(Windowed(bright, window)).max() == 255
    assert read_image(dark).max() == read_image(bright).max() == 255


def test_values_outside_of_the_window_are_as_its_ends():
    values = np.arange(-1000, 1000, 20, dtype=np.int16).reshape(10, 10)
    levels = to_levels(values, Window(-160, 240))
    assert (levels[values <= -160] == 0).all()
    assert (levels[values >= 240] == 255).all()
    assert levels[values == 40] == 128


def test_floats_take_a_window_and_are_refused_without_one():
    values = (TWELVE_BITS / 4095).astype(np.float32)
    for source in (values, tiff(values), Image.fromarray(values)):
        with pytest.raises(UnreadableImageError, match=r"float32 from 0 to 1, .*--window LOW:HIGH"):
            read_image(source)
        levels = read_image(Windowed(source, Window(0, 1)))
        np.testing.assert_array_equal(levels, read_image(TWELVE_BITS))


def test_a_float_picture_in_0_to_1_is_the_8_bit_one():
    pixels = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
    levels = read_image(Windowed(pixels / 255, Window(0, 1)))
    np.testing.assert_array_equal(levels, pixels)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("write", [np.asarray, tiff], ids=["array", "tiff"])
def test_pixels_that_are_not_finite_are_refused(value, write):
    values = np.zeros((4, 4), np.float32)
    values[1, 2] = value
    with pytest.raises(UnreadableImageError, match="NaN or infinite"):
        read_image(Windowed(write(values), Window(0, 1)))


def test_an_8_bit_picture_takes_a_window_of_its_scale_and_refuses_another():
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert read_image(Windowed(pixels, Window(0, 127.5))).max() == 255
    np.testing.assert_array_equal(read_image(Windowed(pixels, Window(0, 255)))[:, :, 0], pixels)
    for window in (Window(0, 4095), Window(-160, 240)):
        with pytest.raises(UnreadableImageError, match="8 bits a channel and the window"):
            read_image(Windowed(encode(Image.fromarray(pixels)), window))


@pytest.mark.parametrize(
    ("values", "window"),
    [
        (np.append(TWELVE_BITS, 65535).reshape(17, 241), None),
        (TWELVE_BITS.astype(float) / 4095, Window(0, 4095)),
        (TWELVE_BITS, Window(10_000, 20_000)),
    ],
    ids=["one-hot-pixel", "window-of-another-unit", "window-beside-the-values"],
)
def test_a_picture_is_refused_rather_than_crushed_to_a_few_levels(values, window):
    with pytest.raises(UnreadableImageError, match=r"become \d+ levels of grey, .*--window"):
        to_levels(values, window)


def test_a_deep_picture_of_few_values_is_none_that_was_crushed():
    mask = np.array([[0, 1000], [2000, 2000]], np.uint16)
    assert to_levels(mask, None).tolist() == [[0, 128], [255, 255]]


def test_an_alpha_channel_without_a_range_is_refused():
    with pytest.raises(UnreadableImageError, match="alpha channel of int64"):
        to_rgb(np.zeros((2, 2, 4), np.int64))


@given(
    numpy_st.arrays(st.sampled_from([np.uint16, np.int16, np.int32, np.uint32]), st.just((4, 5)))
)
def test_levels_keep_the_order_of_values_and_their_ends(values):
    levels = to_levels(values, None)
    order = np.argsort(values, axis=None)
    assert (np.diff(levels.ravel()[order].astype(int)) >= 0).all()
    if values.min() < values.max():
        assert (levels.min(), levels.max()) == (0, 255)
