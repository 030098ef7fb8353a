"""Every official layout, on a tiny tree of it."""

import csv
import pickle

import numpy as np
import pytest
import scipy.io

from fedcof.data import datasets, read_image
from fedcof.data.datasets import registry
from fedcof.errors import DatasetMissingError


@pytest.fixture(autouse=True)
def _any_size(monkeypatch):
    """Let tiny trees pass for the whole set."""
    monkeypatch.setattr(registry, "_check_size", lambda dataset, split, data: None)


def touch(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def names(images, root):
    return [str(path.relative_to(root)) for path in images.images]


def pixels(*values):
    """CIFAR's rows: all red values of an image, then all green ones, then all blue ones."""
    rows = [np.repeat([value, value + 1, value + 2], 1024) for value in values]
    return np.array(rows, dtype=np.uint8)


def write_cifar10_pickles(root):
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        content = {"data": pixels(10 * i, 10 * i + 5), "labels": [i % 2, 1]}
        (folder / name).write_bytes(pickle.dumps(content))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["airplane", "bird"]}))
    return folder


def write_cifar10_binary(root):
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    for i, name in enumerate([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]):
        labels = np.array([[i % 2], [1]], np.uint8)
        np.hstack([labels, pixels(10 * i, 10 * i + 5)]).tofile(folder / name)
    (folder / "batches.meta.txt").write_text("airplane\nbird\n\n")
    return folder


@pytest.mark.parametrize("write", [write_cifar10_pickles, write_cifar10_binary])
@pytest.mark.parametrize("inside", [False, True], ids=["data folder", "the folder itself"])
def test_cifar10(write, inside, tmp_path):
    folder = write(tmp_path)
    train, test = datasets.load("cifar10", folder if inside else tmp_path)
    assert train.labels.tolist() == [0, 1, 1, 1, 0, 1, 1, 1, 0, 1]
    assert test.labels.tolist() == [1, 1]
    assert train.classes == test.classes == ("airplane", "bird")
    assert [image[0, 0, 0] for image in train.images] == list(range(0, 50, 5))
    image = read_image(test.images[0])
    assert image.shape == (32, 32, 3)
    assert image[3, 4].tolist() == [50, 51, 52]


def write_cifar100_pickles(root):
    folder = root / "cifar-100-python"
    folder.mkdir()
    for name, value in (("train", 1), ("test", 2)):
        content = {"data": pixels(value), "fine_labels": [1], "coarse_labels": [0]}
        (folder / name).write_bytes(pickle.dumps(content))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": ["apple", "bee"]}))


def write_cifar100_binary(root):
    folder = root / "cifar-100-binary"
    folder.mkdir()
    for name, value in (("train", 1), ("test", 2)):
        coarse_and_fine = np.array([[0, 1]], np.uint8)
        np.hstack([coarse_and_fine, pixels(value)]).tofile(folder / f"{name}.bin")
    (folder / "fine_label_names.txt").write_text("apple\nbee\n")


@pytest.mark.parametrize("write", [write_cifar100_pickles, write_cifar100_binary])
def test_cifar100_has_the_fine_labels(write, tmp_path):
    write(tmp_path)
    train, test = datasets.load("cifar100", tmp_path)
    assert (train.labels.tolist(), test.labels.tolist()) == ([1], [1])
    assert train.classes == ("apple", "bee")
    assert read_image(test.images[0])[0, 0].tolist() == [2, 3, 4]


@pytest.mark.parametrize("file", ["data_batch_4", "test_batch", "batches.meta"])
def test_a_half_unpacked_cifar_names_the_file(file, tmp_path):
    (write_cifar10_pickles(tmp_path) / file).unlink()
    with pytest.raises(DatasetMissingError, match=rf"incomplete: .*{file}"):
        datasets.load("cifar10", tmp_path)


def test_a_cifar_that_is_cut_off_names_the_file(tmp_path):
    path = write_cifar10_binary(tmp_path) / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"data_batch_2\.bin is cut off"):
        datasets.load("cifar10", tmp_path)


def test_a_cifar_pickle_that_holds_code_is_refused(tmp_path):
    path = write_cifar10_pickles(tmp_path) / "data_batch_1"
    path.write_bytes(pickle.dumps(exec))
    with pytest.raises(ValueError, match=r"data_batch_1: .*builtins\.exec"):
        datasets.load("cifar10", tmp_path)


def test_imagenet_r_holds_out_a_fifth_of_every_class(tmp_path):
    files = [f"imagenet-r/{wnid}/{i}.jpg" for wnid in ("n01443537", "n01484850") for i in range(10)]
    touch(tmp_path, *files, "imagenet-r/README.txt")
    train, test = datasets.load("imagenet-r", tmp_path)
    assert train.classes == ("n01443537", "n01484850")
    assert np.bincount(train.labels).tolist() == [8, 8]
    assert np.bincount(test.labels).tolist() == [2, 2]
    assert sorted(names(train, tmp_path) + names(test, tmp_path)) == files


def write_cub(root):
    folder = root / "CUB_200_2011"
    touch(folder / "images", "001.Sooty_Albatross/a.jpg", "002.Auk/b.jpg", "002.Auk/c.jpg")
    (folder / "images.txt").write_text(
        "1 001.Sooty_Albatross/a.jpg\n2 002.Auk/b.jpg\n3 002.Auk/c.jpg\n"
    )
    (folder / "image_class_labels.txt").write_text("1 1\n2 2\n3 2\n")
    (folder / "train_test_split.txt").write_text("1 1\n2 0\n3 1\n")
    (folder / "classes.txt").write_text("1 001.Sooty_Albatross\n2 002.Auk\n")
    return folder


def test_cub200_has_its_official_split(tmp_path):
    images = write_cub(tmp_path) / "images"
    train, test = datasets.load("cub200", tmp_path)
    assert train.classes == test.classes == ("Sooty Albatross", "Auk")
    assert names(train, images) == ["001.Sooty_Albatross/a.jpg", "002.Auk/c.jpg"]
    assert names(test, images) == ["002.Auk/b.jpg"]
    assert (train.labels.tolist(), test.labels.tolist()) == ([0, 1], [1])


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("images/002.Auk/b.jpg", r"b\.jpg is missing of the 3 images in images\.txt"),
        ("train_test_split.txt", r"train_test_split\.txt"),
    ],
)
def test_a_half_unpacked_cub200_names_the_file(file, message, tmp_path):
    (write_cub(tmp_path) / file).unlink()
    with pytest.raises(DatasetMissingError, match=rf"cub200 in .* is incomplete: .*{message}"):
        datasets.load("cub200", tmp_path)


def test_how_many_more_are_missing_is_said(tmp_path):
    folder = write_cub(tmp_path) / "images"
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(DatasetMissingError, match=r"a\.jpg is missing, and 2 more of the 3 images"):
        datasets.load("cub200", tmp_path)


def write_cars(root, *, labels_in_devkit=False):
    folder = root / "stanford_cars"
    touch(folder, "cars_train/00001.jpg", "cars_train/00002.jpg", "cars_test/00001.jpg")
    devkit = folder / "devkit"
    devkit.mkdir()
    names = np.array([["Audi A4", "BMW X6"]], dtype=object)
    scipy.io.savemat(devkit / "cars_meta.mat", {"class_names": names})

    def annotations(path, *rows):
        kind = [(name, object) for name in ("bbox_x1", "class", "fname")]
        scipy.io.savemat(path, {"annotations": np.array([(3, *row) for row in rows], kind)})

    annotations(devkit / "cars_train_annos.mat", (2, "00001.jpg"), (1, "00002.jpg"))
    test = "cars_test_annos_withlabels.mat"
    annotations((devkit if labels_in_devkit else folder) / test, (2, "00001.jpg"))
    return folder


@pytest.mark.parametrize("labels_in_devkit", [False, True])
def test_cars(labels_in_devkit, tmp_path):
    folder = write_cars(tmp_path, labels_in_devkit=labels_in_devkit)
    train, test = datasets.load("cars", tmp_path)
    assert train.classes == test.classes == ("Audi A4", "BMW X6")
    assert names(train, folder) == ["cars_train/00001.jpg", "cars_train/00002.jpg"]
    assert names(test, folder) == ["cars_test/00001.jpg"]
    assert (train.labels.tolist(), test.labels.tolist()) == ([1, 0], [1])


@pytest.mark.parametrize(
    "file", ["cars_test_annos_withlabels.mat", "devkit/cars_meta.mat", "cars_test/00001.jpg"]
)
def test_half_unpacked_cars_name_the_file(file, tmp_path):
    (write_cars(tmp_path) / file).unlink()
    with pytest.raises(DatasetMissingError, match=rf"{file} is missing"):
        datasets.load("cars", tmp_path)


def write_csv(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def write_inat(root, *, images="train_val_images"):
    folder = root / "inaturalist-user-120k"
    write_csv(
        folder / "federated_train_user_120k.csv",
        ("user_id", "image_id", "class", "label"),
        ("0", "aa", "10", "4711"),
        ("0", "bb", "2", "4"),
        ("7", "cc", "10", "4711"),
    )
    write_csv(folder / "test.csv", ("image_id", "class", "label"), ("dd", "2", "4"))
    files = ("Aves/Pica pica/aa.jpg", "Fungi/x/bb.jpg", "Aves/y/cc.jpg", "Aves/y/dd.jpg")
    touch(root / images, *files, "Aves/y/unused.jpg")
    return root / images


@pytest.mark.parametrize("images", ["train_val_images", "inaturalist-user-120k/train_val_images"])
def test_inat_users(images, tmp_path):
    write_inat(tmp_path, images=images)
    train, test = datasets.load("inat-users-120k", tmp_path)
    assert [path.rsplit("/", 1)[1] for path in train.images] == ["aa.jpg", "bb.jpg", "cc.jpg"]
    assert train.columns["user"].tolist() == ["0", "0", "7"]
    assert train.classes == test.classes == ("2", "10")
    assert (train.labels.tolist(), test.labels.tolist()) == ([1, 0, 1], [0])
    assert read_text(test.images[0]) == "Aves/y/dd.jpg"


def read_text(path):
    with open(path) as file:
        return file.read()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("Fungi/x/bb.jpg", r"bb\.jpg is missing in .* of the 4 images"),
        ("../inaturalist-user-120k/test.csv", r"test\.csv"),
    ],
)
def test_half_unpacked_inat_users_name_the_file(file, message, tmp_path):
    (write_inat(tmp_path) / file).unlink()
    with pytest.raises(DatasetMissingError, match=message):
        datasets.load("inat-users-120k", tmp_path)


def test_inat_users_without_the_images_of_the_competition(tmp_path):
    write_inat(tmp_path).rename(tmp_path / "elsewhere")
    with pytest.raises(DatasetMissingError, match="train_val_images is missing"):
        datasets.load("inat-users-120k", tmp_path)


DOMAINS = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")


def write_domainnet(root):
    folder = root / "domainnet"
    for domain in DOMAINS:
        zebra, bird, axe = (f"{domain}/{name}/1.jpg" for name in ("zebra", "bird", "axe"))
        touch(folder, zebra, bird, axe)
        (folder / f"{domain}_train.txt").write_text(f"{zebra} 344\n{axe} 9\n")
        (folder / f"{domain}_test.txt").write_text(f"{bird} 23\n")
    return folder


def test_domainnet_has_ten_classes_in_six_domains(tmp_path):
    folder = write_domainnet(tmp_path)
    train, test = datasets.load("domainnet", tmp_path)
    assert len(train.classes) == 10
    assert names(train, folder) == [f"{domain}/zebra/1.jpg" for domain in DOMAINS]
    assert train.labels.tolist() == [9] * 6
    assert test.labels.tolist() == [0] * 6
    assert train.columns["domain"].tolist() == test.columns["domain"].tolist() == list(DOMAINS)


def test_a_half_unpacked_domainnet_names_the_file(tmp_path):
    (write_domainnet(tmp_path) / "real" / "zebra" / "1.jpg").unlink()
    with pytest.raises(DatasetMissingError, match=r"zebra/1\.jpg is missing .* real_train\.txt"):
        datasets.load("domainnet", tmp_path)


def write_pacs(root, folder="PACS"):
    for domain in ("art_painting", "cartoon", "photo", "sketch"):
        touch(root / folder / domain, *(f"{c}/{i}.jpg" for c in ("dog", "horse") for i in range(5)))
    return root / folder


@pytest.mark.parametrize("folder", ["PACS", "PACS/kfold"])
def test_pacs_holds_out_a_fifth_of_every_class_of_every_domain(folder, tmp_path):
    write_pacs(tmp_path, folder)
    train, test = datasets.load("pacs", tmp_path)
    assert train.classes == test.classes == ("dog", "horse")
    cells, counts = np.unique(
        [f"{d} {c}" for d, c in zip(test.columns["domain"], test.labels, strict=True)],
        return_counts=True,
    )
    assert len(cells) == 8
    assert counts.tolist() == [1] * 8
    assert not set(train.images) & set(test.images)
    assert len(train) + len(test) == 40
    for images in (train, test):
        assert all(
            path.parts[-3:-1] == (domain, images.classes[label])
            for path, domain, label in zip(
                images.images, images.columns["domain"], images.labels, strict=True
            )
        )


def test_a_pacs_whose_domains_differ_names_the_class(tmp_path):
    folder = write_pacs(tmp_path)
    touch(folder, "photo/cat/1.jpg")
    with pytest.raises(ValueError, match=r"photo has other classes than .*art_painting: cat"):
        datasets.load("pacs", tmp_path)


def test_a_half_unpacked_pacs_names_the_domain(tmp_path):
    (write_pacs(tmp_path) / "photo").rename(tmp_path / "elsewhere")
    with pytest.raises(DatasetMissingError, match=r"no image folder at .*photo"):
        datasets.load("pacs", tmp_path)


def test_a_folder_of_the_users_own_is_split(tmp_path):
    touch(tmp_path, *(f"{name}/{i}.png" for name in ("cat", "dog") for i in range(5)))
    train, test = datasets.load(f"folder:{tmp_path}")
    assert np.bincount(train.labels).tolist() == [4, 4]
    assert np.bincount(test.labels).tolist() == [1, 1]


@pytest.mark.parametrize("part", ["test", "val"])
def test_a_folder_of_the_users_own_may_have_a_test_set(part, tmp_path):
    touch(tmp_path, "train/cat/1.png", "train/dog/2.png", f"{part}/cat/3.png", f"{part}/dog/4.png")
    train, test = datasets.load(f"folder:{tmp_path}")
    assert names(train, tmp_path) == ["train/cat/1.png", "train/dog/2.png"]
    assert names(test, tmp_path) == [f"{part}/cat/3.png", f"{part}/dog/4.png"]


def test_a_test_set_of_other_classes_is_refused(tmp_path):
    touch(tmp_path, "train/cat/1.png", "test/cat/3.png", "test/eel/4.png")
    with pytest.raises(ValueError, match=r"no image of to train on: eel"):
        datasets.load(f"folder:{tmp_path}")


@pytest.mark.parametrize(
    "name", [name for name, dataset in datasets.DATASETS.items() if not dataset.packaged]
)
def test_every_set_that_is_not_there_says_what_was_expected_and_where_to_get_it(name, tmp_path):
    dataset = datasets.describe(name)
    with pytest.raises(DatasetMissingError) as caught:
        datasets.load(name, tmp_path)
    assert dataset.homepage in str(caught.value)
    for path in dataset.wanted(tmp_path):
        assert str(path) in str(caught.value)
