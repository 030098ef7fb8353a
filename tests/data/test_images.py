import io

import numpy as np
import pytest
from PIL import Image

from fedcof.data import ImageSet, image_folder, read_image
from fedcof.data.images import content_hash
from fedcof.errors import UnreadableImageError


def encode(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def one_pixel(mode, color):
    return encode(Image.new(mode, (1, 1), color), "TIFF" if mode == "CMYK" else "PNG")


def test_rgb_pixels_stay_as_they_are():
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    np.testing.assert_array_equal(read_image(encode(Image.fromarray(pixels))), pixels)
    np.testing.assert_array_equal(read_image(pixels), pixels)


@pytest.mark.parametrize(
    ("mode", "color", "rgb"),
    [
        ("L", 7, (7, 7, 7)),
        ("1", 1, (255, 255, 255)),
        ("LA", (7, 255), (7, 7, 7)),
        ("RGBA", (10, 20, 30, 255), (10, 20, 30)),
        ("CMYK", (255, 0, 0, 0), (0, 255, 255)),
        ("I;16", 65535, (255, 255, 255)),
        ("I;16", 257, (1, 1, 1)),
    ],
)
def test_every_mode_becomes_rgb(mode, color, rgb):
    image = read_image(one_pixel(mode, color))
    assert image.shape == (1, 1, 3)
    assert image.dtype == np.uint8
    assert tuple(image[0, 0]) == rgb


def test_a_palette_image_has_its_colours():
    image = Image.new("P", (1, 1), 1)
    image.putpalette([0, 0, 0, 200, 100, 50])
    assert tuple(read_image(encode(image))[0, 0]) == (200, 100, 50)


@pytest.mark.parametrize("transparency", [1, b"\xff\x00"], ids=["index", "table"])
def test_a_transparent_palette_colour_is_white(transparency):
    image = Image.new("P", (1, 1), 1)
    image.putpalette([0, 0, 0, 200, 100, 50])
    content = encode(image, transparency=transparency)
    assert tuple(read_image(content)[0, 0]) == (255, 255, 255)


def test_a_transparent_pixel_is_white_whatever_its_hidden_colour():
    assert tuple(read_image(one_pixel("RGBA", (10, 20, 30, 0)))[0, 0]) == (255, 255, 255)


def test_a_camera_rotation_is_applied():
    wide = Image.new("RGB", (4, 2))
    exif = wide.getexif()
    exif[0x0112] = 6  # orientation: turn clockwise by a quarter
    assert read_image(encode(wide, "JPEG", exif=exif)).shape == (4, 2, 3)


def test_the_first_frame_of_an_animation_is_taken():
    frames = [Image.new("RGB", (1, 1), color) for color in ("red", "blue")]
    content = encode(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert tuple(read_image(content)[0, 0]) == (255, 0, 0)


@pytest.mark.parametrize(
    ("pixels", "rgb"),
    [
        (np.full((1, 1), 9, np.uint8), (9, 9, 9)),
        (np.full((1, 1, 1), 9, np.uint8), (9, 9, 9)),
        (np.full((1, 1), True), (255, 255, 255)),
        (np.full((1, 1, 3), 65535, np.uint16), (255, 255, 255)),
        (np.array([[[1, 2, 3, 0]]], np.uint8), (255, 255, 255)),
    ],
    ids=["grey", "grey-with-axis", "bool", "16-bit", "transparent"],
)
def test_pixel_arrays_become_rgb(pixels, rgb):
    assert tuple(read_image(pixels)[0, 0]) == rgb


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.zeros((3, 8, 8), np.uint8), "no image"),
        (np.zeros(8, np.uint8), "no image"),
        (np.zeros((0, 8), np.uint8), "no image"),
        (np.zeros((8, 8), np.float32), "float32 have no known range"),
    ],
    ids=["channels-first", "1-d", "empty", "float"],
)
def test_an_array_that_is_no_image_says_why(pixels, message):
    with pytest.raises(UnreadableImageError, match=message):
        read_image(pixels)


def test_a_floating_point_image_says_why():
    with pytest.raises(UnreadableImageError, match="floating-point"):
        read_image(encode(Image.new("F", (1, 1)), "TIFF"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an image",
        encode(Image.effect_noise((64, 64), 50))[:-200],
        encode(Image.effect_noise((64, 64), 50), "JPEG")[:300],
    ],
    ids=["empty", "text", "truncated-png", "truncated-jpeg"],
)
def test_damaged_content_is_unreadable(content):
    with pytest.raises(UnreadableImageError):
        read_image(content)


def test_a_missing_file_is_unreadable(tmp_path):
    with pytest.raises(UnreadableImageError, match="FileNotFoundError"):
        read_image(tmp_path / "absent.png")


def test_the_hash_is_that_of_the_content_wherever_it_lies(tmp_path):
    content = one_pixel("L", 7)
    path = tmp_path / "a.png"
    path.write_bytes(content)
    assert content_hash(path) == content_hash(str(path)) == content_hash(content)


def test_arrays_of_other_pixels_shape_or_type_have_other_hashes():
    pixels = np.arange(4, dtype=np.uint8)
    sources = [
        pixels.reshape(2, 2),
        pixels.reshape(1, 4),
        pixels.reshape(2, 2).T,
        pixels.view(np.uint16).reshape(1, 2),
    ]
    assert len({content_hash(source) for source in sources}) == len(sources)


def test_a_folder_tree_has_a_class_a_folder(tmp_path):
    for name in ("dog/b.png", "cat/deep/a.JPEG", "cat/c.png", "cat/notes.txt", "cat/.hidden.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    images = image_folder(tmp_path)
    assert images.classes == ("cat", "dog")
    assert [str(path.relative_to(tmp_path)) for path in images.images] == [
        "cat/c.png",
        "cat/deep/a.JPEG",
        "dog/b.png",
    ]
    assert images.labels.tolist() == [0, 0, 1]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no image folder at .*absent"):
        image_folder(tmp_path / "absent")


def test_a_folder_without_classes_says_what_is_expected(tmp_path):
    (tmp_path / "a.png").touch()
    with pytest.raises(FileNotFoundError, match="one for each class"):
        image_folder(tmp_path)


def test_a_class_without_images_is_named(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.png").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="sub-folders empty;"):
        image_folder(tmp_path)


def test_labels_of_another_length_are_refused():
    with pytest.raises(ValueError, match="2 images have 1 labels"):
        ImageSet([b"", b""], np.zeros(1, np.int64), ("a",))
