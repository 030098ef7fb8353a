import os
import unicodedata

import numpy as np
import pytest
from pictures import grey

from fedcof.data import file_tree, folders, image_folder
from fedcof.data.folders import image_parts, list_pictures, one_part
from fedcof.errors import FolderError, SamePictureWarning


def make(root, *names):
    """Make files, every picture another one; a name that ends in / is an empty folder."""
    for level, name in enumerate(names):
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(grey(level) if path.suffix in (".png", ".JPEG", ".PNG") else b"text")


def names(images, root):
    return [path.relative_to(root).as_posix() for path in images.images]


def left(images, root):
    """Return what was left out, by the reason, below the root."""
    return {
        reason: [os.path.relpath(place, root) for place in places]
        for reason, places in (images.left_out.places | images.left_out.passed_over).items()
    }


def test_a_folder_tree_has_a_class_a_folder(tmp_path):
    make(tmp_path, "dog/b.png", "cat/deep/a.JPEG", "cat/c.png")
    images = image_folder(tmp_path)
    assert images.classes == ("cat", "dog")
    assert names(images, tmp_path) == ["cat/c.png", "cat/deep/a.JPEG", "dog/b.png"]
    assert images.labels.tolist() == [0, 0, 1]
    assert not images.left_out.count


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no image folder at .*absent"):
        image_folder(tmp_path / "absent")


def test_a_folder_without_classes_says_what_is_expected_and_what_there_is(tmp_path):
    make(tmp_path, "a.png", "notes.txt")
    with pytest.raises(
        FileNotFoundError, match=r"(?s)one for each class.*no class's folder: .*a\.png"
    ):
        image_folder(tmp_path)


def test_all_that_is_no_picture_is_counted_with_its_reason(tmp_path):
    kept = ["cat/a.png", "cat/deep/B.PNG", "dog/c.png"]
    by_reason = {
        file_tree.HIDDEN: [
            ".git",
            "__MACOSX",
            "cat/.DS_Store",
            "cat/.hidden.png",
            "cat/.ipynb_checkpoints",
            "cat/Thumbs.db",
        ],
        file_tree.NO_PICTURE: [
            "README.txt",
            "cat/data.h5",
            "cat/empty",
            "cat/film.mpg",
            "cat/paper.pdf",
            "dog/labels.csv",
            "dog/volume.nii.gz",
        ],
        file_tree.UNREAD: ["cat/phone.HEIC", "dog/camera.nef", "dog/drawing.svg"],
        folders.NO_CLASS: ["stray.png"],
        folders.EMPTY: ["eel", "fox"],
    }
    make(
        tmp_path, *kept, *by_reason[file_tree.NO_PICTURE], *by_reason[file_tree.UNREAD], "stray.png"
    )
    make(tmp_path, ".git/x.png", "__MACOSX/cat/._a.png", "cat/.ipynb_checkpoints/a-checkpoint.png")
    make(tmp_path, "cat/.DS_Store", "cat/.hidden.png", "cat/Thumbs.db", "eel/", "fox/deep/")
    images = image_folder(tmp_path)
    assert names(images, tmp_path) == kept
    assert {
        reason: sorted(places) for reason, places in left(images, tmp_path).items()
    } == by_reason
    assert images.left_out.count == 13
    assert list(images.left_out.passed_over) == [file_tree.HIDDEN]
    assert len(images.left_out.lines()) == len(by_reason)


def test_a_picture_is_known_by_its_bytes_where_its_suffix_says_nothing(tmp_path):
    make(tmp_path, "cat/a.png")
    for level, name in enumerate(("b", "c.dat", "d.jpg", "e.txt"), 1):
        (tmp_path / "cat" / name).write_bytes(grey(level))
    (tmp_path / "cat" / "f.c").write_text("#define f_width 4")
    images = image_folder(tmp_path)
    assert names(images, tmp_path) == [
        f"cat/{name}" for name in ("a.png", "b", "c.dat", "d.jpg", "e.txt")
    ]
    assert left(images, tmp_path) == {file_tree.NO_PICTURE: ["cat/f.c"]}


def test_what_is_called_a_picture_and_is_none_stays_to_be_named_when_it_is_read(tmp_path):
    make(tmp_path, "cat/a.png")
    (tmp_path / "cat" / "empty.jpg").touch()
    (tmp_path / "cat" / "text.jpg").write_text("text")
    assert len(image_folder(tmp_path)) == 3


def test_links_are_followed_but_not_in_circles(tmp_path):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    make(root, "cat/a.png", "dog/b.png")
    make(elsewhere, "far/1.png", "far/deep/2.png", "3.png")
    for path in (elsewhere / "far").rglob("*.png"):
        path.write_bytes(path.read_bytes() + path.name.encode())
    (elsewhere / "3.png").write_bytes(grey(200))
    for link, target in {
        "cat/file.png": elsewhere / "3.png",
        "cat/gone.png": elsewhere / "gone.png",
        "cat/itself": root / "cat",
        "cat/up": tmp_path,
        "cat/z.png": root / "cat" / "z.png",
        "eel": elsewhere / "far",
        "twin": root / "dog",
    }.items():
        (root / link).symlink_to(target)
    (elsewhere / "far" / "back").symlink_to(elsewhere)
    images = image_folder(root)
    assert names(images, root) == [
        "cat/a.png",
        "cat/file.png",
        "dog/b.png",
        "eel/1.png",
        "eel/deep/2.png",
    ]
    assert left(images, root) == {
        file_tree.BROKEN: ["cat/gone.png", "cat/z.png"],
        file_tree.LOOP: ["cat/itself", "cat/up", "eel/back", "twin"],
    }


def test_a_pipe_among_the_files_is_not_opened(tmp_path):
    make(tmp_path, "cat/a.png")
    os.mkfifo(tmp_path / "cat" / "b.png")
    assert left(image_folder(tmp_path), tmp_path) == {file_tree.NO_PICTURE: ["cat/b.png"]}


def test_two_unicode_forms_of_a_name_are_one_class(tmp_path):
    composed, decomposed = (unicodedata.normalize(form, "naïf") for form in ("NFC", "NFD"))
    make(tmp_path, f"{composed}/a.png", "nb/b.png", f"{decomposed}/c.png")
    images = image_folder(tmp_path)
    assert images.classes == (composed, "nb")
    assert images.labels.tolist() == [0, 0, 1]


def test_a_name_that_is_no_unicode_is_a_class(tmp_path):
    make(tmp_path, "cat/a.png")
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    with open(folder + b"/b.png", "wb") as file:
        file.write(grey(1))
    images = image_folder(tmp_path)
    assert images.classes == ("caf\ufffd", "cat")


SITES = ("north/cat/1.png", "north/dog/2.png", "south/cat/3.png", "south/eel/4.png")


def test_sites_that_hold_classes_are_not_taken_for_classes(tmp_path):
    make(tmp_path, *SITES)
    with pytest.raises(
        FolderError, match=r"two ways: .*north, south.* --client folder.* --label folder"
    ):
        image_folder(tmp_path)


@pytest.mark.parametrize("more", ["south/stray.png", "west/5.png"])
def test_sites_are_seen_beside_a_stray_picture(tmp_path, more):
    make(tmp_path, *SITES, more)
    with pytest.raises(FolderError, match="two ways"):
        image_folder(tmp_path)


def test_sites_without_a_class_in_common_are_not_taken_for_classes(tmp_path):
    make(tmp_path, "north/cat/1.png", "south/eel/4.png")
    with pytest.raises(FolderError, match="two ways"):
        image_folder(tmp_path)


def test_the_first_level_may_be_said_to_be_clients(tmp_path):
    make(tmp_path, *SITES, "west/", "north/stray.png", "north/fox/")
    images = image_folder(tmp_path, first="client")
    assert names(images, tmp_path) == list(SITES)
    assert images.classes == ("cat", "dog", "eel")
    assert images.labels.tolist() == [0, 1, 0, 2]
    assert images.columns["client"].tolist() == ["north", "north", "south", "south"]
    assert left(images, tmp_path) == {
        folders.NO_CLASS: ["north/stray.png"],
        folders.EMPTY: ["north/fox", "west"],
    }


def test_the_first_level_may_be_said_to_be_classes(tmp_path):
    make(tmp_path, *SITES)
    images = image_folder(tmp_path, first="class")
    assert images.classes == ("north", "south")


def test_classes_that_each_hold_one_folder_of_a_name_are_classes(tmp_path):
    make(tmp_path, "cat/images/1.png", "dog/images/2.png")
    assert image_folder(tmp_path).classes == ("cat", "dog")


def test_a_folder_around_the_classes_is_not_one_class(tmp_path):
    make(tmp_path, "photos/cat/1.png", "photos/dog/2.png")
    with pytest.raises(FolderError, match=r"or name .*photos itself"):
        image_folder(tmp_path)


def test_sites_that_hold_parts_are_named_one_by_one(tmp_path):
    make(tmp_path, "north/train/cat/1.png", "north/test/cat/2.png", "south/train/cat/3.png")
    with pytest.raises(
        FolderError, match=r"have parts \(test, train\): name one of them, such as .*north"
    ):
        image_folder(tmp_path)


def test_parts_are_not_taken_for_classes_by_who_wants_classes(tmp_path):
    make(tmp_path, *PARTS)
    with pytest.raises(FolderError, match=r"has parts \(test, train\), not classes"):
        image_folder(tmp_path)


PARTS = ("train/cat/1.png", "train/dog/2.png", "test/cat/3.png")


def test_parts_to_train_and_to_test_on_are_not_classes(tmp_path):
    make(tmp_path, *PARTS)
    parts = image_parts(tmp_path)
    assert {part: names(images, tmp_path) for part, images in parts.items()} == {
        "train": ["train/cat/1.png", "train/dog/2.png"],
        "test": ["test/cat/3.png"],
    }
    assert parts["train"].classes == parts["test"].classes == ("cat", "dog")


@pytest.mark.parametrize("part", ["train", "test"])
def test_of_one_part_all_of_the_other_is_passed_over(tmp_path, part):
    notes = ["train/cat/notes.txt", "test/cat/notes.txt"]
    make(tmp_path, *PARTS, *notes, "README.txt")
    images = one_part(image_parts(tmp_path), part)
    other = {"train": "test", "test": "train"}[part]
    assert names(images, tmp_path) == [name for name in PARTS if name.startswith(part)]
    assert left(images, tmp_path) == {
        file_tree.NO_PICTURE: [f"{part}/cat/notes.txt", "README.txt"],
        folders.OTHER_PART.format(other): [
            name for name in (*PARTS, *notes) if name.startswith(other)
        ],
    }
    assert images.left_out.count == 2


def test_a_set_without_parts_is_one(tmp_path):
    make(tmp_path, "cat/1.png", "bus/2.png", "train/3.png")
    parts = image_parts(tmp_path)
    assert one_part(parts, "train") is one_part(parts, "test") is parts[""]
    assert parts[""].classes == ("bus", "cat", "train")


@pytest.mark.parametrize("name", ["train", "Training", "val"])
def test_a_part_alone_is_no_class(tmp_path, name):
    make(tmp_path, f"{name}/cat/1.png", f"{name}/dog/2.png")
    assert one_part(image_parts(tmp_path), "train").classes == ("cat", "dog")


def test_what_lies_beside_the_parts_is_counted(tmp_path):
    make(tmp_path, *PARTS, "val/dog/4.png", "val/notes.txt")
    make(tmp_path, "extra/cat/5.png", "stray.png", "notes.txt")
    images = image_parts(tmp_path)["train"]
    assert left(images, tmp_path) == {
        file_tree.NO_PICTURE: ["notes.txt"],
        folders.OTHER_PART.format("val"): ["val/dog/4.png", "val/notes.txt"],
        folders.NO_CLASS: ["extra/cat/5.png", "stray.png"],
    }


def test_classes_to_test_on_alone_are_named(tmp_path):
    make(tmp_path, *PARTS, "test/eel/4.png")
    with pytest.raises(FolderError, match="no image of to train on: eel"):
        image_parts(tmp_path)


@pytest.mark.parametrize(
    ("copies", "where"),
    [
        (
            ("cat/1.png", "dog/1.png"),
            r"in two classes, .* \(1\): .*cat.1\.png and .*dog.1\.png",
        ),
        (("cat/1.png", "cat/Copy of 1.png"), "twice in a class"),
        (("train/cat/1.png", "test/cat/1.png"), r"in both parts \(1\)"),
    ],
)
def test_the_same_picture_twice_counts_and_is_named(tmp_path, copies, where):
    first = copies[0].split("/")[0]
    make(tmp_path, f"{first}/dog/other.png" if first == "train" else "dog/other.png", *copies)
    for name in copies:
        (tmp_path / name).write_bytes(grey(99))
    with pytest.warns(SamePictureWarning, match=where):
        parts = image_parts(tmp_path)
    assert sum(map(len, parts.values())) == 3


def test_pictures_of_one_size_that_differ_are_not_the_same(tmp_path):
    make(tmp_path, "cat/", "dog/")
    for name, end in (("cat/1.png", b"a"), ("dog/1.png", b"b")):
        (tmp_path / name).write_bytes(grey(1) + bytes(1 << 17) + end)
    assert len(image_parts(tmp_path)[""]) == 2


def test_pictures_without_labels_are_listed(tmp_path):
    make(tmp_path, "b.png", "deep/a.png", "notes.txt")
    found, left_out = list_pictures(tmp_path)
    assert [path.name for path in found] == ["b.png", "a.png"]
    assert left_out.count == 1
    assert list_pictures(tmp_path / "b.png")[0] == [tmp_path / "b.png"]


def test_a_folder_without_pictures_says_what_there_is(tmp_path):
    make(tmp_path, "deep/notes.txt")
    with pytest.raises(FileNotFoundError, match=r"(?s)has no pictures.*notes\.txt"):
        list_pictures(tmp_path)


def test_the_images_of_some_rows_keep_what_was_left_out(tmp_path):
    make(tmp_path, "cat/a.png", "cat/notes.txt")
    images = image_folder(tmp_path)
    assert images.subset(np.array([0])).left_out == images.left_out
