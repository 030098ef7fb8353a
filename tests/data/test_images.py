import io

import numpy as np
import pytest
from PIL import Image

from fedcof.data import ImageSet, Window, Windowed, read_image
from fedcof.data.images import content_hash, image_name, in_memory, unreadable_images
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


@pytest.mark.parametrize("kind", ["GIF", "PNG", "TIFF"])
def test_the_first_frame_of_an_animation_or_a_stack_is_taken(kind):
    frames = [Image.new("RGB", (1, 1), color) for color in ("red", "blue")]
    content = encode(frames[0], kind, save_all=True, append_images=frames[1:])
    assert tuple(read_image(content)[0, 0]) == (255, 0, 0)


@pytest.mark.parametrize(
    ("pixels", "rgb"),
    [
        (np.full((1, 1), 9, np.uint8), (9, 9, 9)),
        (np.full((1, 1, 1), 9, np.uint8), (9, 9, 9)),
        (np.full((1, 1), True), (255, 255, 255)),
        (np.array([[[1, 2, 3, 0]]], np.uint8), (255, 255, 255)),
    ],
    ids=["grey", "grey-with-axis", "bool", "transparent"],
)
def test_pixel_arrays_become_rgb(pixels, rgb):
    assert tuple(read_image(pixels)[0, 0]) == rgb


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.zeros((3, 8, 8), np.uint8), r"channels first; .*transpose\(1, 2, 0\)"),
        (np.zeros((1, 8, 8), np.uint8), "channels first"),
        (np.zeros(8, np.uint8), "no image"),
        (np.zeros((0, 8), np.uint8), "no image"),
        (np.zeros((8, 8), complex), "complex128 are no numbers"),
        (np.array([["a"]]), "are no numbers"),
    ],
    ids=["channels-first", "grey-channel-first", "1-d", "empty", "complex", "text"],
)
def test_an_array_that_is_no_image_says_why(pixels, message):
    assert content_hash(pixels)
    with pytest.raises(UnreadableImageError, match=message):
        read_image(pixels)


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
    with pytest.raises(UnreadableImageError, match="there is no such file"):
        read_image(tmp_path / "absent.png")


def test_the_hash_is_that_of_the_content_wherever_it_lies(tmp_path):
    content = one_pixel("L", 7)
    path = tmp_path / "a.png"
    path.write_bytes(content)
    assert content_hash(path) == content_hash(str(path)) == content_hash(content)


def test_a_file_in_memory_is_the_same_picture(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(one_pixel("L", 7))
    for source in (path, {"path": str(path)}, Windowed(path, Window(0, 14))):
        hashed, pixels = content_hash(source), read_image(source)
        held = in_memory(source)
        path.write_bytes(b"changed")
        assert content_hash(held) == hashed
        np.testing.assert_array_equal(read_image(held), pixels)
        path.write_bytes(one_pixel("L", 7))


def test_a_file_that_is_large_or_cannot_be_read_stays_a_path(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(one_pixel("L", 7))
    monkeypatch.setattr("fedcof.data.images._LARGE", 4)
    for source in (path, tmp_path / "missing.png", tmp_path, "\0"):
        assert in_memory(source) == source


def test_arrays_of_other_pixels_shape_or_type_have_other_hashes():
    pixels = np.arange(4, dtype=np.uint8)
    sources = [
        pixels.reshape(2, 2),
        pixels.reshape(1, 4),
        pixels.reshape(2, 2).T,
        pixels.view(np.uint16).reshape(1, 2),
    ]
    assert len({content_hash(source) for source in sources}) == len(sources)


def test_labels_of_another_length_are_refused():
    with pytest.raises(ValueError, match="2 images have 1 labels"):
        ImageSet([b"", b""], np.zeros(1, np.int64), ("a",))


PICTURE = np.arange(64, dtype=np.uint8).reshape(8, 8)


def test_what_holds_a_picture_is_the_same_picture(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(PICTURE).save(path)
    content = path.read_bytes()
    sources = [
        str(path),
        path,
        content,
        bytearray(content),
        memoryview(content),
        Image.fromarray(PICTURE),
        Image.open(path),
        {"bytes": content, "path": "elsewhere.png"},
        {"bytes": None, "path": str(path)},
        PICTURE,
    ]
    expected = np.repeat(PICTURE[:, :, None], 3, axis=2)
    for source in sources:
        np.testing.assert_array_equal(read_image(source), expected)
    assert len({content_hash(source) for source in sources[:5]}) == 1


@pytest.mark.parametrize(
    "source", [None, 3, [[1, 2]], {}, {"bytes": None, "path": None}, {"bytes": b""}, bytearray()]
)
def test_what_holds_no_picture_is_unreadable(source):
    with pytest.raises(UnreadableImageError, match=r"is no image; expected|it is empty"):
        read_image(source)
    assert content_hash(source)


def test_a_picture_of_pillow_is_hashed_by_all_that_its_pixels_come_from():
    palette = [Image.new("P", (1, 1)) for _ in range(2)]
    palette[1].putpalette([1, 2, 3])
    pictures = [Image.new("L", (1, 2)), Image.new("L", (2, 1)), Image.new("L", (2, 1), 1), *palette]
    assert len(set(map(content_hash, pictures))) == len(pictures)


def test_a_window_is_part_of_the_hash():
    hashes = {content_hash(Windowed(PICTURE, Window(0, high))) for high in (63, 127)}
    assert len(hashes | {content_hash(PICTURE)}) == 3


def test_how_deep_pictures_are_read_is_part_of_their_hash_alone(monkeypatch):
    shallow = [PICTURE, encode(Image.fromarray(PICTURE)), encode(Image.fromarray(PICTURE), "JPEG")]
    sixteen = PICTURE.astype(np.uint16)
    deep = [sixteen, encode(Image.fromarray(sixteen)), encode(Image.fromarray(sixteen), "TIFF")]
    before = [[content_hash(source) for source in sources] for sources in (shallow, deep)]
    monkeypatch.setattr("fedcof.data.images.READING", b"otherwise")
    after = [[content_hash(source) for source in sources] for sources in (shallow, deep)]
    assert before[0] == after[0]
    assert not set(before[1]) & set(after[1])


def test_a_picture_too_large_for_its_bytes_is_unreadable(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(UnreadableImageError, match="DecompressionBombError"):
        read_image(encode(Image.fromarray(PICTURE)))


def test_images_are_named_by_their_file_or_their_row(tmp_path):
    path = tmp_path / "a.png"
    sources = [path, {"path": str(path)}, Windowed(path, Window(0, 1)), b"", PICTURE]
    names = [image_name(source, row) for row, source in enumerate(sources)]
    assert names == [str(path)] * 3 + ["image 3", "image 4"]


def test_unreadable_images_are_found_by_row():
    steps = []
    faults = unreadable_images([PICTURE, b"", PICTURE, b"text"], steps.append)
    assert faults == {
        1: "it is empty",
        3: "it is damaged, or of a format or a type of pixel that Pillow does not read",
    }
    assert sum(steps) == 4
