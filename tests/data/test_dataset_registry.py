import re

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("datasets")

import io
import os
import sys
from dataclasses import replace
from pathlib import Path

import datasets as hugging_face
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from PIL import Image

from fedcof.data import datasets, read_image
from fedcof.data.datasets import domainnet
from fedcof.data.datasets.hub import Hub
from fedcof.errors import DatasetMissingError
from fedcof.installation import install_line

REAL = Path(os.environ.get("FEDCOF_DATA", Path(__file__).parents[3] / "shared" / "data"))


def png(value):
    buffer = io.BytesIO()
    Image.new("L", (2, 2), value).save(buffer, "PNG")
    return buffer.getvalue()


def write_parquet(path, images, labels, **columns):
    table = {"image": [png(value) for value in images], "label": labels, **columns}
    pa.parquet.write_table(pa.table(table), path)


def of_size(monkeypatch, name, **sizes):
    """Let a set have another official size."""
    monkeypatch.setitem(datasets.DATASETS, name, replace(datasets.DATASETS[name], **sizes))


def test_an_unknown_name_lists_the_near_ones():
    with pytest.raises(ValueError, match=r"'cifar-100'; did you mean cifar100"):
        datasets.load("cifar-100", "anywhere")


def test_a_name_near_nothing_lists_all():
    with pytest.raises(ValueError, match=r"cars or cifar10 or .*folder:PATH"):
        datasets.describe("zzzzzz")


def test_fashion_mnist_needs_no_folder():
    train, test = datasets.load("fashion-mnist")
    assert (len(train), len(test)) == (7500, 2500)


def test_a_set_without_a_folder_says_which_folder_is_meant():
    with pytest.raises(DatasetMissingError, match=r"cub200 needs its folder: .*CUB_200_2011"):
        datasets.load("cub200")


def test_parquet_files_called_as_the_set_are_the_set(tmp_path, monkeypatch):
    of_size(monkeypatch, "cifar100", classes=2, train=2, test=1)
    write_parquet(tmp_path / "cifar100-train.parquet", [1, 2], [0, 1])
    write_parquet(tmp_path / "cifar100-test.parquet", [3], [1])
    train, test = datasets.load("cifar100", tmp_path)
    assert (train.labels.tolist(), test.labels.tolist()) == ([0, 1], [1])


def test_one_parquet_file_called_as_the_set_is_split_by_domain_and_class(tmp_path, monkeypatch):
    of_size(monkeypatch, "pacs", classes=2, train=16, test=4)
    domains = ["photo", "sketch"] * 10
    write_parquet(tmp_path / "pacs.parquet", range(20), [0, 0, 1, 1] * 5, domain=domains)
    train, test = datasets.load("pacs", tmp_path)
    cells = {(d, c) for d, c in zip(test.columns["domain"], test.labels.tolist(), strict=True)}
    assert len(cells) == len(test) == 4
    assert len(train) == 16


def test_a_missing_test_file_is_named(tmp_path):
    write_parquet(tmp_path / "cifar100-train.parquet", [1], [0])
    with pytest.raises(DatasetMissingError, match=r"incomplete: no file .*cifar100-test\.parquet"):
        datasets.load("cifar100", tmp_path)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"train": 3}, "has 2 training images and should have 3"),
        ({"test": 5}, "has 1 test images and should have 5"),
        ({"classes": 7}, "has 2 classes and should have 7"),
    ],
)
def test_a_set_of_another_size_than_the_official_one_is_refused(
    sizes, message, tmp_path, monkeypatch
):
    of_size(monkeypatch, "cifar100", **{"classes": 2, "train": 2, "test": 1, **sizes})
    write_parquet(tmp_path / "cifar100-train.parquet", [1, 2], [0, 1])
    write_parquet(tmp_path / "cifar100-test.parquet", [3], [1])
    with pytest.raises(DatasetMissingError, match=message):
        datasets.load("cifar100", tmp_path)


def test_a_parquet_file_of_the_users_own_goes_by_its_path(tmp_path):
    write_parquet(tmp_path / "own.parquet", range(10), ["a", "b"] * 5)
    train, test = datasets.load(f"parquet:{tmp_path / 'own.parquet'}")
    assert (len(train), len(test)) == (8, 2)


def test_a_table_of_features_is_not_a_set_of_images(tmp_path):
    np.savez(tmp_path / "own.npz", features=np.eye(10), labels=np.arange(10) % 2)
    train, test = datasets.load(f"table:{tmp_path / 'own.npz'}")
    assert (len(train), len(test)) == (8, 2)
    with pytest.raises(ValueError, match="images are needed"):
        datasets.only_images(train, test)


def hub_table(labels, **columns):
    """A table as the hub's, whose labels have names."""
    features = {"img": hugging_face.Image()} | {
        name: hugging_face.ClassLabel(names=values)
        if isinstance(values[0], str) and name != "wnid"
        else hugging_face.Value("string")
        for name, (values, _) in {"label": labels, **columns}.items()
    }
    content = {name: cells for name, (_, cells) in {"label": labels, **columns}.items()}
    images = [{"bytes": png(i), "path": None} for i in range(len(labels[1]))]
    return hugging_face.Dataset.from_dict(
        {"img": images, **content}, features=hugging_face.Features(features)
    )


@pytest.fixture
def hub(monkeypatch):
    """Stands for the hub: what is asked for, and what it answers."""
    answers, asked = {}, []

    def load_dataset(name, split):
        asked.append((name, split))
        return answers[split]

    monkeypatch.setattr(hugging_face, "load_dataset", load_dataset)
    return answers, asked


def test_the_hub_is_asked_by_the_public_id_and_its_images_stay_encoded(hub, monkeypatch):
    answers, asked = hub
    of_size(monkeypatch, "cifar10", classes=2, train=3, test=2)
    answers["train"] = hub_table((["bird", "cat"], [1, 0, 1]))
    answers["test"] = hub_table((["bird", "cat"], [0, 1]))
    train, test = datasets.load("cifar10", "hub")
    assert asked == [("uoft-cs/cifar10", "train"), ("uoft-cs/cifar10", "test")]
    assert (train.labels.tolist(), test.labels.tolist()) == ([1, 0, 1], [0, 1])
    assert train.classes == ("bird", "cat")
    assert train.images[2] == png(2)
    assert read_image(train.images[1:][0]).shape == (2, 2, 3)


def test_of_the_hubs_domainnet_ten_classes_are_kept(hub, monkeypatch):
    answers, _ = hub
    of_size(monkeypatch, "domainnet", hub=Hub("x", image="img", columns=("domain",)), classes=2)
    names = ["axe", *reversed(domainnet.CLASSES)]
    for split in ("train", "test"):
        answers[split] = hub_table(
            (names, [0, 1, 10, 0]), domain=(["clipart", "real"], [0, 1, 0, 1])
        )
    train, _ = datasets.load("domainnet", "hub")
    assert train.classes == domainnet.CLASSES
    assert train.labels.tolist() == [9, 0]  # zebra, bird
    assert train.columns["domain"].tolist() == ["real", "clipart"]
    assert list(train.images) == [png(1), png(2)]


def test_a_set_that_the_hub_has_as_one_split_is_split_here(hub, monkeypatch):
    answers, asked = hub
    own = Hub("x", image="img", label="wnid", train="test", test=None)
    of_size(monkeypatch, "imagenet-r", hub=own, classes=2, train=8, test=2)
    answers["test"] = hub_table((["a"], [0] * 10), wnid=(["n1"], ["n2", "n1"] * 5))
    train, test = datasets.load("imagenet-r", "hub")
    assert train.classes == ("n1", "n2")
    assert np.bincount(test.labels).tolist() == [1, 1]
    assert asked == [("x", "test")]


def test_a_set_that_is_not_on_the_hub_says_where_it_is():
    with pytest.raises(
        DatasetMissingError, match=r"inat-users-120k is not on the hub; get it from"
    ):
        datasets.load("inat-users-120k", "hub")


def test_without_hugging_face_datasets_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape(install_line("data"))):
        datasets.load("cifar10", "hub")


@pytest.mark.skipif(
    not (REAL / "pacs.parquet").is_file(), reason="no real data: set FEDCOF_DATA to its folder"
)
@pytest.mark.parametrize(
    ("name", "first"), [("cifar100", "apple"), ("pacs", "dog")], ids=["cifar100", "pacs"]
)
def test_real_data_has_its_official_size_and_decodes(name, first):
    train, test = datasets.load(name, REAL)
    assert train.classes[0] == first
    assert len(train.classes) == datasets.DATASETS[name].classes
    for images in (train, test):
        for row in (0, len(images) // 2, -1):
            assert read_image(images.images[row]).shape in ((32, 32, 3), (176, 176, 3))


def test_images_of_inaturalist_are_cut_out_and_all_others_squashed():
    declared = {name: datasets.preprocessing_of(name) for name in datasets.DATASETS}
    assert declared.pop("inat-users-120k") == {"shorter_side": 299}
    assert not any(declared.values())
    assert datasets.preprocessing_of("inat-users-120k", 96) == {"shorter_side": 128, "size": 96}
    assert datasets.preprocessing_of("folder:photos") == {}
