import re

import pytest

pytest.importorskip("pyarrow")

import io
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
from PIL import Image

from fedcof.data import Reading, extract_features, read
from fedcof.data.datasets.own import as_sets, read_own, read_tables_of_images
from fedcof.data.reading import arrow
from fedcof.data.reading.reading import read_tables
from fedcof.installation import install_line


def read_images(paths, **names):
    [images] = as_sets([read_tables(paths, Reading(**names))])
    return images


def png(value):
    buffer = io.BytesIO()
    Image.new("L", (2, 2), value).save(buffer, "PNG")
    return buffer.getvalue()


def table(values=(0, 1, 2, 3, 4), labels=(1, 0, 1, 0, 1), **columns):
    images = [{"bytes": png(value), "path": f"{value}.png"} for value in values]
    return pa.table({"image": images, "label": list(labels), **columns})


def write(path, content, group=2):
    if path.suffix == ".parquet":
        pa.parquet.write_table(content, path, row_group_size=group)
    elif path.suffix == ".feather":
        pa.feather.write_feather(content, path, chunksize=group)
    else:  # the stream that Hugging Face writes
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, content.schema) as stream:
            stream.write_table(content, group)
    return path


@pytest.fixture(params=[".parquet", ".feather", ".arrow"])
def path(request, tmp_path):
    return write(tmp_path / f"images{request.param}", table(user=["a", "b", "a", "c", "b"]))


def test_images_come_encoded_and_in_their_order(path):
    images = read_images([path])
    assert list(images.images) == [png(value) for value in range(5)]
    assert images.labels.tolist() == [1, 0, 1, 0, 1]
    assert images.classes == ("0", "1")


def test_every_other_plain_column_is_kept(path):
    columns = read_images([path]).columns
    assert {name: column.tolist() for name, column in columns.items()} == {
        "user": ["a", "b", "a", "c", "b"]
    }


def test_images_are_taken_from_the_end_and_by_slices(path):
    images = read_images([path]).images
    assert images[-1] == png(4)
    assert list(images[1:4]) == [png(1), png(2), png(3)]
    with pytest.raises(IndexError):
        images[5]


def test_a_subset_is_read_when_it_is_needed(path):
    subset = read_images([path]).subset(np.array([3, 0]))
    assert list(subset.images) == [png(3), png(0)]
    assert subset.labels.tolist() == [0, 1]
    assert subset.columns["user"].tolist() == ["c", "a"]


def test_the_features_of_a_file_are_those_of_its_images(path, backbone, tmp_path):
    features = extract_features(read_images([path]).images, backbone, cache_dir=tmp_path / "cache")
    assert features.features[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_in_order_every_row_group_is_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow, "KEPT_BYTES", 0)
    images = read_images([write(tmp_path / "a.parquet", table())]).images
    list(images)
    assert images._read.cache_info().misses == 3


def test_no_more_of_a_file_is_kept_than_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow, "KEPT_BYTES", 0)
    images = read_images([write(tmp_path / "a.parquet", table(), group=1)]).images
    list(images)
    assert images._read.cache_info().currsize == 2


def test_what_fits_in_the_limit_is_read_once_whatever_the_order(tmp_path):
    images = read_images([write(tmp_path / "a.parquet", table(), group=1)]).images
    for row in (4, 0, 2, 4, 1, 3, 0):
        assert images[row] == png(row)
    assert images._read.cache_info().misses == 5


@pytest.mark.parametrize("column", ["binary", "path", "struct without bytes"])
def test_images_may_be_bytes_or_paths_from_the_file(tmp_path, column):
    (tmp_path / "1.png").write_bytes(png(1))
    cell = {
        "binary": png(1),
        "path": "1.png",
        "struct without bytes": {"bytes": None, "path": "1.png"},
    }[column]
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()}) if "struct" in column else None
    content = pa.table({"image": pa.array([cell], kind), "label": [0]})
    [image] = read_images([write(tmp_path / "a.parquet", content)]).images
    expected = png(1) if column == "binary" else tmp_path / "1.png"
    assert image == expected


def test_a_row_without_an_image_is_an_unreadable_image(tmp_path, backbone):
    content = pa.table({"image": pa.array([png(1), None], pa.binary()), "label": [0, 0]})
    images = read_images([write(tmp_path / "a.parquet", content)]).images
    with pytest.warns(UserWarning, match="image 1"):
        assert extract_features(images, backbone, cache_dir=tmp_path).kept.tolist() == [0]


def test_the_column_of_images_is_found_by_what_it_holds(tmp_path):
    content = pa.table({"id": [7], "photo": [png(1)], "label": [0]})
    images = read_images([write(tmp_path / "a.parquet", content)])
    assert list(images.images) == [png(1)]
    assert set(images.columns) == {"id"}


def test_columns_may_be_named(tmp_path):
    content = table(kind=[2, 2, 5, 5, 5], other=[b""] * 5)
    images = read_images([write(tmp_path / "a.parquet", content)], features="other", label="kind")
    assert images.labels.tolist() == [0, 0, 1, 1, 1]
    assert images.classes == ("2", "5")
    assert images.images[0] == b""


def test_texts_as_labels_are_the_classes_in_alphabetical_order(tmp_path):
    content = table(labels=["b", "a", "b", "a", "b"])
    images = read_images([write(tmp_path / "a.parquet", content)])
    assert images.classes == ("a", "b")
    assert images.labels.tolist() == [1, 0, 1, 0, 1]


def test_a_column_beside_the_numbers_names_the_classes(tmp_path):
    content = table(**{"class": ["dog", "cat", "dog", "cat", "dog"]})
    images = read_images([write(tmp_path / "a.parquet", content)])
    assert images.classes == ("cat", "dog")
    assert "class" not in images.columns


def test_hugging_faces_metadata_name_the_classes(tmp_path):
    features = {"label": {"names": ["cat", "dog", "eel"], "_type": "ClassLabel"}}
    content = table().replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    images = read_images([write(tmp_path / "a.parquet", content)])
    assert images.classes == ("cat", "dog", "eel")
    assert images.labels.tolist() == [1, 0, 1, 0, 1]


def test_train_and_test_files_have_the_same_classes(tmp_path):
    train = write(tmp_path / "train.parquet", table(labels=["c", "b", "b", "c", "c"]))
    test = write(tmp_path / "test.parquet", table([8, 9], ["a", "c"]))
    for first, second in (read_tables_of_images([train], [test]), read_own(str(tmp_path))):
        assert first.classes == second.classes == ("a", "b", "c")
        assert first.labels.tolist() == [2, 1, 1, 2, 2]
        assert second.labels.tolist() == [0, 2]
        assert list(second.images) == [png(8), png(9)]


def test_of_one_file_a_fifth_of_every_class_is_held_out(tmp_path):
    content = table(range(20), [0, 1] * 10)
    train, test = read_own(str(write(tmp_path / "a.parquet", content)))
    assert np.bincount(train.labels).tolist() == [8, 8]
    assert np.bincount(test.labels).tolist() == [2, 2]
    assert {*train.images, *test.images} == {png(value) for value in range(20)}


def test_of_a_folder_without_a_test_file_a_fifth_is_held_out(tmp_path):
    write(tmp_path / "train.parquet", table(range(20), [0, 1] * 10))
    train, test = read_own(str(tmp_path))
    assert (len(train), len(test)) == (16, 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"image": [b""], "id": [1]}, r"has no labels; it has 'image', 'id'"),
        ({"label": [1], "id": [1]}, r"no features and no images; it has 'id'"),
        ({"image": [b"", b""], "label": [1, None]}, "row 1 has no label"),
        ({"image": [b"", b""], "label": ["a", None]}, "row 1 has no label"),
    ],
    ids=["no-labels", "no-images", "hole-in-numbers", "hole-in-texts"],
)
def test_a_file_without_images_and_labels_lists_its_columns(tmp_path, content, message):
    path = write(tmp_path / "a.parquet", pa.table(content))
    with pytest.raises(ValueError, match=message):
        read_images([path])


def test_files_of_different_columns_are_refused(tmp_path):
    first = write(tmp_path / "a.parquet", table())
    second = write(tmp_path / "b.parquet", table(client=list("abcde")))
    with pytest.raises(ValueError, match=r"a\.parquet has no clients, but .*b\.parquet has"):
        read_images([first, second])


def test_a_damaged_file_is_named(path):
    path.write_bytes(path.read_bytes()[:-9][:200])
    with pytest.raises(ValueError, match=f"{path.name} cannot be read .* damaged"):
        read_images([path])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file or folder .*absent\.parquet"):
        read(tmp_path / "absent.parquet")


def test_without_pyarrow_the_extra_is_named(monkeypatch, path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape(install_line("data"))):
        read_images([path])
