import numpy as np
import pytest
from pictures import encode, grey, png
from PIL import Image

from fedcof.data import Reading, datasets, read, read_image
from fedcof.errors import OwnDataError, OwnDataWarning, SettingError

DEEP = np.arange(4096, dtype=np.uint16).reshape(64, 64)


def make(root, *names):
    for level, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(grey(level) if path.suffix == ".png" else b"text")


def below(places, root):
    return [place.removeprefix(f"{root}/") for place in places]


PARTS = ("train/cat/1.png", "train/dog/2.png", "test/cat/3.png")


@pytest.mark.parametrize("part", ["train", "test"])
def test_the_part_that_is_asked_for_is_read_and_the_other_counted(tmp_path, part):
    make(tmp_path, *PARTS)
    own = read(tmp_path, part=part)
    assert below(own.places, tmp_path) == [name for name in PARTS if name.startswith(part)]
    assert own.left_out.count == 0
    assert len(own.left_out.everything()) == sum(not name.startswith(part) for name in PARTS)


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_table_has_parts_as_images_have(tmp_path, part):
    (tmp_path / "train.csv").write_text("label,a,b\ncat,1.5,2\ndog,2.5,3\n")
    (tmp_path / "test.csv").write_text("label,a,b\ncat,3.5,4\n")
    own = read(tmp_path, part=part)
    assert own.data[:, 0].tolist() == {"train": [1.5, 2.5], "test": [3.5]}[part]
    assert own.left_out.count == 0
    assert len(own.left_out.everything()) == 1


def test_sites_are_the_clients_of_their_images(tmp_path):
    make(tmp_path, "north/cat/1.png", "north/dog/2.png", "south/cat/3.png")
    own = read(tmp_path, Reading(client="folder"))
    assert own.labels.tolist() == ["cat", "dog", "cat"]
    assert own.clients.tolist() == ["north", "north", "south"]
    assert {name: len(labels) for name, (_, labels) in own.by_client("site").items()} == {
        "north": 2,
        "south": 1,
    }


def test_a_folder_of_images_has_no_other_columns(tmp_path):
    make(tmp_path, "cat/1.png")
    with pytest.raises(OwnDataError, match="no columns: ward"):
        read(tmp_path, Reading(client="ward"))


def test_a_window_is_that_of_all_images(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").write_bytes(png(DEEP))
    own = read(tmp_path, Reading(window="0:8190"))
    assert read_image(own.data[0]).max() == 128
    assert read_image(read(tmp_path).data[0]).max() == 255


def test_a_window_that_is_none_is_refused():
    with pytest.raises(SettingError, match="window must be LOW:HIGH"):
        Reading(window="9:1")


def test_without_labels_every_picture_of_a_folder_is_read(tmp_path):
    make(tmp_path, "a.png", "deep/b.png", "north/cat/c.png", "notes.txt")
    own = read(tmp_path, labelled=False)
    assert below(own.places, tmp_path) == ["a.png", "deep/b.png", "north/cat/c.png"]
    assert own.labels is None
    assert own.left_out.count == 1


def test_without_labels_one_picture_is_a_source(tmp_path):
    make(tmp_path, "a.png")
    (tmp_path / "b").write_bytes(grey(3))
    for name in ("a.png", "b"):
        own = read(tmp_path / name, labelled=False)
        assert below(own.places, tmp_path) == [name]
    with pytest.raises(OwnDataError, match="images lie in a folder"):
        read(tmp_path / "a.png")


def test_folders_whose_names_differ_by_case_are_named(tmp_path):
    make(tmp_path, "Cat/1.png", "cat/2.png")
    with pytest.warns(OwnDataWarning, match=r"'Cat', 'cat' are taken as 2 different names"):
        assert len(set(read(tmp_path).labels)) == 2


def test_what_lies_beside_the_images_is_said_where_they_are_split(tmp_path):
    make(tmp_path, *PARTS, "train/dog/notes.txt", "val/cat/4.png")
    with pytest.warns(OwnDataWarning) as warned:
        train, test = datasets.load(f"folder:{tmp_path}")
    assert (len(train), len(test)) == (2, 1)
    assert ["notes.txt" in str(w.message) or "part val" in str(w.message) for w in warned] == [1, 1]


PIXELS = np.random.default_rng(0).integers(0, 256, (3, 4, 4, 3)).astype(np.uint8)
HOLDERS = {
    "pillow": Image.fromarray,
    "arrays": np.asarray,
    "bytes": lambda pixels: encode(Image.fromarray(pixels)),
    "bytearray": lambda pixels: bytearray(encode(Image.fromarray(pixels))),
    "memoryview": lambda pixels: memoryview(encode(Image.fromarray(pixels))),
    "dict": lambda pixels: {"bytes": encode(Image.fromarray(pixels)), "path": None},
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=list(HOLDERS))
@pytest.mark.parametrize("kind", ["dict", "frame"])
def test_whatever_holds_pictures_in_a_table_they_are_images(hold, kind):
    table = {"image": [hold(pixels) for pixels in PIXELS], "label": ["a", "b", "a"]}
    own = read(table if kind == "dict" else pytest.importorskip("pandas").DataFrame(table))
    assert own.labels.tolist() == ["a", "b", "a"]
    for image, pixels in zip(own.data, PIXELS, strict=True):
        np.testing.assert_array_equal(read_image(image), pixels)
