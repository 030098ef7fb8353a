import numpy as np
import pytest
from safetensors.numpy import save_file

from fedcof.data.datasets.own import read_own
from fedcof.errors import OwnDataWarning

FEATURES = np.arange(30, dtype=np.float32).reshape(10, 3)
LABELS = np.array([0, 1] * 5)
USERS = np.arange(10) % 3


def save(path, **arrays):
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".safetensors":
        save_file({name: np.asarray(array) for name, array in arrays.items()}, path)
    else:
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        columns = {name: list(array) for name, array in arrays.items()}
        parquet.write_table(pa.table(columns), path, row_group_size=4)
    return path


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".parquet"])
def test_a_fifth_of_every_class_of_a_file_is_held_out(tmp_path, suffix):
    path = save(tmp_path / f"a{suffix}", features=FEATURES, labels=LABELS, user=USERS)
    train, test = read_own(path)
    assert (len(train), len(test)) == (8, 2)
    assert sorted(test.labels) == [0, 1]
    assert train.classes == ("0", "1")
    for part in (train, test):
        rows = part.features[:, 0].astype(int) // 3
        np.testing.assert_array_equal(part.features, FEATURES[rows])
        np.testing.assert_array_equal(part.labels, LABELS[rows])
        np.testing.assert_array_equal(part.columns["user"], USERS[rows])


def test_a_folder_has_files_to_train_on_and_to_test_on(tmp_path):
    save(tmp_path / "train.npz", features=FEATURES, labels=np.array(["b", "c"] * 5))
    save(tmp_path / "test.npz", features=FEATURES[:2], labels=np.array(["a", "c"]))
    train, test = read_own(tmp_path)
    assert train.classes == test.classes == ("a", "b", "c")
    assert train.labels.tolist() == [1, 2] * 5
    assert test.labels.tolist() == [0, 2]


def test_floating_point_columns_are_features_where_none_is_called_so(tmp_path):
    path = save(tmp_path / "a.parquet", x=FEATURES[:, 0], label=LABELS, y=FEATURES[:, 1])
    train, _ = read_own(path)
    np.testing.assert_array_equal(train.features[:, 1], train.features[:, 0] + 1)


def test_what_has_no_entry_for_each_sample_is_left_out(tmp_path):
    path = save(tmp_path / "a.npz", features=FEATURES, labels=LABELS, mean=FEATURES.mean(axis=0))
    assert read_own(path)[0].columns == {}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": FEATURES}, "has no labels; it has 'features'"),
        ({"labels": LABELS}, "has no features and no images"),
        (
            {"features": FEATURES[:4], "labels": LABELS},
            "4 rows of .* 10 entries",
        ),
        ({"features": FEATURES, "labels": LABELS / 2}, r"the label of rows 1, 3, 5, 7, 9 is 0\.5"),
        ({"features": np.where(FEATURES == 7, np.nan, FEATURES), "labels": LABELS}, "row 2 "),
    ],
)
def test_a_table_that_makes_no_sense_says_what_and_where(tmp_path, arrays, message):
    with pytest.raises(ValueError, match=rf"a\.npz.*{message}"):
        read_own(save(tmp_path / "a.npz", **arrays))


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.parquet"])
def test_a_damaged_table_is_named(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match=f"{name}"):
        read_own(path)


def test_pickles_in_a_table_are_not_run(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, features=FEATURES, labels=np.array([print] * 10, dtype=object))
    with pytest.raises(ValueError, match="pickled objects, which are not loaded"):
        read_own(path)


def test_another_kind_of_file_says_what_is_read(tmp_path):
    path = tmp_path / "a.xlsx"
    path.touch()
    with pytest.raises(ValueError, match=r"of no kind that is read; a table ends in \.csv"):
        read_own(path)


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        read_own(tmp_path / "absent.npz")


def test_near_twins_in_the_train_and_the_test_set_are_said(tmp_path):
    (tmp_path / "train.csv").write_text("u,label\n1,a\n2,b\n")
    (tmp_path / "test.csv").write_text("u,label\n1,A\n2,b\n")
    with pytest.warns(OwnDataWarning, match="labels 'A', 'a' of different files"):
        read_own(str(tmp_path))
