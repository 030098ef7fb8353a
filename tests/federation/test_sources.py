import pytest

pytest.importorskip("pyarrow")

import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

import fedcof
from fedcof.data import Reading, Window
from fedcof.data.images import WindowedImages
from fedcof.errors import SummaryError
from fedcof.federation.sources import extract, load_clients

FEATURES = np.arange(12, dtype=np.float32).reshape(6, 2)
LABELS = np.array([0, 1, 0, 1, 0, 1])
CLIENTS = np.array(["b", "a", "b", "c", "a", "b"])


def context(**node_config):
    return SimpleNamespace(node_id=7, node_config=node_config)


@pytest.fixture
def function(monkeypatch):
    """Name a load_data that returns something."""

    def function(returned):
        module = SimpleNamespace(load_data=lambda context: returned)
        monkeypatch.setitem(sys.modules, "site_of_test", module)
        return "site_of_test:load_data"

    return function


def same(pair, features, labels):
    return np.array_equal(pair[0], features) and np.array_equal(pair[1], labels)


def test_function_gives_one_client_called_by_its_node(function):
    clients = load_clients(function((FEATURES, LABELS)), context())
    assert list(clients) == ["node-7"]
    assert same(clients["node-7"], FEATURES, LABELS)


def test_one_client_is_called_by_the_nodes_configuration(function):
    source = function((FEATURES, LABELS))
    assert list(load_clients(source, context(**{"client-id": "ward 3"}))) == ["ward 3"]


def test_function_gives_a_mapping_of_clients(function):
    clients = {"a": (FEATURES, LABELS)}
    assert load_clients(function(clients), context()) is clients


def test_function_gives_clients_one_after_the_other(function):
    parts = ((name, FEATURES[i : i + 1], LABELS[i : i + 1]) for i, name in enumerate("ab"))
    clients = load_clients(function(parts), context())
    assert same(clients["b"], FEATURES[1:2], LABELS[1:2])


def test_function_that_gives_a_client_twice_is_refused(function):
    parts = [("a", FEATURES, LABELS), ("a", FEATURES, LABELS)]
    with pytest.raises(SummaryError, match="twice"):
        load_clients(function(parts), context())


@pytest.fixture(params=["npz", "npy"])
def save(request, tmp_path):
    def save(**arrays):
        if request.param == "npz":
            np.savez(tmp_path / "data.npz", **arrays)
            return str(tmp_path / "data.npz")
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        return str(tmp_path)

    return save


def test_file_without_clients_is_one_client(save):
    clients = load_clients(save(features=FEATURES, labels=LABELS), context())
    assert same(clients["node-7"], FEATURES, LABELS)


def test_file_of_several_clients_keeps_their_rows_in_order(save):
    source = save(features=FEATURES, labels=LABELS, clients=CLIENTS)
    clients = load_clients(source, context())
    assert sorted(clients) == ["a", "b", "c"]
    assert same(clients["b"], FEATURES[[0, 2, 5]], LABELS[[0, 2, 5]])


def test_rows_of_a_client_keep_their_order_in_a_large_file(save):
    owners = np.random.default_rng(0).integers(3, size=500)
    source = save(features=np.arange(500.0)[:, None], labels=owners, clients=owners)
    clients = load_clients(source, context())
    assert all((np.diff(features[:, 0]) > 0).all() for features, _ in clients.values())


def test_nodes_of_a_simulation_share_the_clients(save):
    source = save(features=FEATURES, labels=LABELS, clients=CLIENTS)
    shares = [
        load_clients(source, context(**{"partition-id": i, "num-partitions": 2})) for i in (0, 1)
    ]
    assert [list(share) for share in shares] == [["a", "c"], ["b"]]
    assert same(shares[0]["c"], FEATURES[[3]], LABELS[[3]])
    with pytest.raises(KeyError):
        shares[1]["a"]


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return str(path)


def test_parquet_file_of_features(tmp_path):
    columns = {"features": FEATURES.tolist(), "label": LABELS, "client": CLIENTS.tolist()}
    clients = load_clients(parquet(tmp_path / "a.parquet", **columns), context())
    assert same(clients["b"], FEATURES[[0, 2, 5]], LABELS[[0, 2, 5]])
    assert clients["b"][0].dtype == np.float64


@pytest.mark.parametrize("wrap", [lambda image: image, lambda image: {"bytes": image, "path": ""}])
def test_parquet_file_of_images_is_labelled_by_names(wrap, tmp_path):
    images = [b"one", b"two\0"]
    source = parquet(tmp_path / "a.parquet", image=list(map(wrap, images)), label=["dog", "cat"])
    data, labels = load_clients(source, context())["node-7"]
    assert list(data) == images
    assert labels.tolist() == ["dog", "cat"]


def test_parquet_file_of_images_of_several_clients(tmp_path):
    columns = {"image": [b"1", b"2", b"3"], "label": [0, 1, 0], "client": ["b", "a", "b"]}
    clients = load_clients(parquet(tmp_path / "a.parquet", **columns), context())
    data, labels = clients["b"]
    assert list(data) == [b"1", b"3"]
    assert labels.tolist() == [0, 0]


def test_path_with_a_colon_is_a_path(tmp_path):
    path = tmp_path / "a:b.npz"
    np.savez(path, features=FEATURES, labels=LABELS)
    assert list(load_clients(str(path), context())) == ["node-7"]


@pytest.mark.parametrize("source", ["", "no/such/folder", "no/such.npz", "data.csv"])
def test_source_that_is_none_is_refused(source):
    with pytest.raises((SummaryError, FileNotFoundError)):
        load_clients(source, context())


def test_folder_of_images_is_one_client_with_the_names_of_its_folders(tmp_path):
    for name, colour in {"cat": "red", "dog": "blue"}.items():
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 8), colour).save(tmp_path / name / "1.png")
    images, labels = load_clients(str(tmp_path), context())["node-7"]
    assert [path.parent.name for path in images] == ["cat", "dog"]
    assert labels.tolist() == ["cat", "dog"]


def test_features_are_taken_as_they_are():
    features, labels, _ = extract(FEATURES, LABELS.tolist(), "")
    assert features is FEATURES
    assert labels.tolist() == LABELS.tolist()


def test_features_move_the_progress_bar_to_its_end():
    steps = []
    extract(FEATURES, LABELS, "", advance=steps.append)
    assert sum(steps) == len(FEATURES)


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (3, 28, 28)).astype(np.uint8)


def test_images_go_through_the_backbone_as_in_one_process(images, tmp_path, monkeypatch):
    from fedcof.backbones import get
    from fedcof.data import extract_features

    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path))
    features, labels, _ = extract(images, [1, 2, 3], "squeezenet1.1")
    assert np.array_equal(features, extract_features(images, get("squeezenet1.1")).features)
    assert labels.tolist() == [1, 2, 3]


def test_label_of_an_image_that_cannot_be_read_is_left_out(images, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path))
    with pytest.warns(UserWarning, match="skipped 1"):
        _, labels, _ = extract([images[0], b"broken", images[2]], [1, 2, 3], "squeezenet1.1")
    assert labels.tolist() == [1, 3]


def test_images_without_a_backbone_are_refused(images):
    with pytest.raises(SummaryError, match="name a backbone") as caught:
        extract(images, [1, 2, 3], "")
    assert caught.value.code == "no-backbone"


def test_images_with_too_few_labels_are_refused(images):
    with pytest.raises(SummaryError, match="3 images but 2 labels"):
        extract(images, [1, 2], "squeezenet1.1")


def test_pictures_in_different_windows_are_not_solved_together(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path))
    pictures = [np.arange(64, dtype=np.uint16).reshape(8, 8) + np.uint16(i) for i in range(3)]
    method = fedcof.FedNCM()
    summaries = []
    for high in (100, 200):
        images = WindowedImages(pictures, Window(0, high))
        features, labels, origin = extract(images, ["a", "b", "b"], "squeezenet1.1")
        summaries.append(
            method.summarize(features, labels, client_id=str(high)).with_origin(origin)
        )
    assert summaries[0].origin["window"] == "0:100"
    with pytest.raises(SummaryError, match=r"not of one window: .*0:100.*0:200"):
        method.solve(summaries)


def test_columns_are_named_by_the_run_and_before_it_by_the_node(tmp_path):
    columns = {"u": FEATURES[:, 0], "kind": LABELS, "ward": CLIENTS.tolist(), "site": ["x"] * 6}
    source = parquet(tmp_path / "a.parquet", **columns)
    run = Reading(features="u", label="kind", client="site")
    assert list(load_clients(source, context(), run)) == ["x"]
    assert sorted(load_clients(source, context(client="ward"), run)) == ["a", "b", "c"]


def test_a_client_whose_features_are_not_finite_does_not_stop_the_others(save):
    features = np.where(FEATURES == 2, np.nan, FEATURES)
    clients = load_clients(save(features=features, labels=LABELS, clients=CLIENTS), context())
    assert same(clients["b"], FEATURES[[0, 2, 5]], LABELS[[0, 2, 5]])


@pytest.mark.parametrize("source", ["no_such_module:load", "json:no_such_function", "..:load"])
def test_a_source_that_is_neither_a_path_nor_a_function_is_named(source):
    with pytest.raises(SummaryError, match="no path, and no function of a module"):
        load_clients(source, SimpleNamespace(node_config={}, node_id=1))
