"""The rule: rows in = rows counted + rows left out, or an error."""

import pytest

pytest.importorskip("pyarrow")

import warnings

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcof.data import Reading, read
from fedcof.data.datasets.own import read_own
from fedcof.errors import OwnDataError

cells = st.one_of(st.none(), st.text("ab\u0301e ", max_size=2), st.sampled_from(["nan", "NA", "A"]))
numbers = st.one_of(st.none(), st.integers(-3, 3))
floats = st.one_of(st.none(), st.floats(width=32))


@st.composite
def tables(draw):
    rows = draw(st.integers(0, 5))

    def column(values):
        return draw(st.lists(values, min_size=rows, max_size=rows))

    columns = {"u": pa.array(column(floats), pa.float32()), "label": column(cells)}
    if draw(st.booleans()):
        columns["client"] = column(draw(st.sampled_from([cells, numbers])))
    if draw(st.booleans()):
        columns["v"] = pa.array(column(numbers), pa.int64())
    return pa.table(columns)


@settings(max_examples=150)
@given(tables())
def test_every_row_counts_with_its_client_or_there_is_an_error(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            own = read(table)
        except OwnDataError:
            return
        clients = own.by_client("one")
    assert sum(len(labels) for _, labels in clients.values()) + own.left_out.count == len(table)
    rows = np.concatenate([data for data, _ in clients.values()])
    assert sorted(rows[:, 0].tolist()) == sorted(table["u"].to_pylist())


def test_a_subset_keeps_labels_clients_and_places_together():
    table = pa.table({"u": [0.0, 1, 2], "label": ["a", "b", "c"], "client": ["n", "s", "n"]})
    part = read(table).subset(np.array([2, 0]))
    assert part.data[:, 0].tolist() == [2, 0]
    assert part.labels.tolist() == ["c", "a"]
    assert part.clients.tolist() == ["n", "n"]
    assert list(part.places) == ["the table, row 2", "the table, row 0"]


def test_test_columns_in_another_order_are_not_swapped(tmp_path):
    header, swapped = "u,v,label\n", "v,u,label\n"
    (tmp_path / "train.csv").write_text(header + "1,2,a\n1,2,b\n")
    (tmp_path / "test.csv").write_text(swapped + "2,1,a\n2,1,b\n")
    train, test = read_own(str(tmp_path))
    np.testing.assert_array_equal(train.features, test.features)


def test_other_test_columns_are_refused(tmp_path):
    (tmp_path / "train.csv").write_text("u,v,label\n1,2,a\n1,2,b\n")
    (tmp_path / "test.csv").write_text("u,w,label\n1,2,a\n1,2,b\n")
    with pytest.raises(OwnDataError, match="it lacks 'v' and only it has 'w'"):
        read_own(str(tmp_path))


def test_tables_beside_folders_of_images_are_not_chosen_between(tmp_path):
    (tmp_path / "labels.csv").write_text("u,label\n1,a\n")
    (tmp_path / "cat").mkdir()
    with pytest.raises(OwnDataError, match=r"folder:.* for images, table:"):
        read(tmp_path)
    assert len(read(f"table:{tmp_path}")) == 1


def test_a_folder_of_images_has_no_columns(tmp_path):
    (tmp_path / "cat").mkdir()
    with pytest.raises(OwnDataError, match="no columns: ward"):
        read(f"folder:{tmp_path}", Reading(client="ward"))


def test_a_data_set_of_hugging_face_keeps_its_names_and_its_selection():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        embedding=datasets.Sequence(datasets.Value("float32")),
        label=datasets.ClassLabel(names=["cat", "dog", "eel"]),
    )
    whole = datasets.Dataset.from_dict(
        {"embedding": [[0.0, 1], [2, 3], [4, 5]], "label": [0, 1, 0]}, features=features
    )
    own = read(whole.select([2, 1]))
    assert own.labels.tolist() == ["cat", "dog"]
    assert own.classes == ("cat", "dog", "eel")
    assert own.data.tolist() == [[4, 5], [2, 3]]


def test_paths_of_images_are_read_from_the_folder_of_the_file(tmp_path):
    (tmp_path / "list.csv").write_text("file_name,label\nx/1.png,a\nx/2.png,b\n")
    own = read(tmp_path / "list.csv")
    assert not own.are_features
    assert own.data[1] == tmp_path / "x/2.png"
