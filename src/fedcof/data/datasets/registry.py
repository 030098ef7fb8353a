"""The data sets that go by a name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from fedcof.data.datasets.cars import CARS
from fedcof.data.datasets.cifar import CIFAR_10, CIFAR_100
from fedcof.data.datasets.cub200 import CUB200
from fedcof.data.datasets.domainnet import DOMAINNET, ten_classes
from fedcof.data.datasets.hub import Hub, load_hub
from fedcof.data.datasets.imagenet_r import IMAGENET_R
from fedcof.data.datasets.inat_users import INAT_USERS
from fedcof.data.datasets.layout import Layout
from fedcof.data.datasets.own import read_own, read_tables_of_images
from fedcof.data.datasets.pacs import PACS
from fedcof.data.fashion_mnist import fashion_mnist
from fedcof.data.images import ImageSet
from fedcof.data.reading.folders import KINDS
from fedcof.data.reading.reading import USUAL_NAMES, Reading
from fedcof.data.split import Split, TableSplit
from fedcof.data.tables import FeatureTable
from fedcof.errors import DatasetMissingError

_OFFICIAL = "official"


@dataclass(frozen=True)
class Dataset:
    """What is known of a data set.

    Parameters
    ----------
    name, title : str
    homepage : str
        Where to get it.
    layouts : tuple of Layout
        The official forms that are read.
    classes : int
    train, test : int or None
        Number of images; None where it is not known for sure.
    split : str
        Where the test set comes from.
    columns : tuple of str
        What is known of every training image besides its class.
    hub : Hub or None
        Where Hugging Face ``datasets`` finds it.
    select : callable
        Takes the images of this data set out of the hub's.
    packaged : callable, optional
        Returns a set that comes with fedcof.
    preprocessing : mapping
        Fields of `fedcof.backbones.Preprocessing`, for a network that takes 224 pixels, that the
        authors' code has for this data set alone. Of all others it squashes the whole image to the
        network's square; the paper does not say.
    """

    name: str
    title: str
    homepage: str
    layouts: tuple[Layout, ...]
    classes: int
    train: int | None
    test: int | None
    split: str = _OFFICIAL
    columns: tuple[str, ...] = ()
    hub: Hub | None = None
    select: Callable[[ImageSet], ImageSet] = lambda images: images
    packaged: Callable[[], Split] | None = None
    preprocessing: Mapping[str, Any] = field(default_factory=dict)

    def wanted(self, data: Path) -> list[Path]:
        """Return the files of which one has to be in a data folder."""
        part = "-train" if self.split == _OFFICIAL else ""
        parquet = data / f"{self.name}{part}.parquet"
        return [*(layout.wanted(data) for layout in self.layouts), parquet]


_HELD_OUT = "a fifth of every class, held out with a fixed seed"

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            "fashion-mnist",
            "Fashion-MNIST: 10,000 images of clothes, which come with fedcof",
            "https://github.com/zalandoresearch/fashion-mnist",
            (),
            classes=10,
            train=7_500,
            test=2_500,
            split="a quarter of every class of the official test set, held out with a fixed seed",
            packaged=fashion_mnist,
        ),
        Dataset(
            "cifar10",
            "CIFAR-10",
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            CIFAR_10,
            classes=10,
            train=50_000,
            test=10_000,
            hub=Hub("uoft-cs/cifar10", image="img"),
        ),
        Dataset(
            "cifar100",
            "CIFAR-100",
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            CIFAR_100,
            classes=100,
            train=50_000,
            test=10_000,
            hub=Hub("uoft-cs/cifar100", image="img", label="fine_label"),
        ),
        Dataset(
            "imagenet-r",
            "ImageNet-R: renditions of 200 classes of ImageNet",
            "https://github.com/hendrycks/imagenet-r",
            IMAGENET_R,
            classes=200,
            train=24_000,
            test=6_000,
            split=_HELD_OUT,
            hub=Hub("axiong/imagenet-r", label="wnid", train="test", test=None),
        ),
        Dataset(
            "cub200",
            "CUB-200-2011: birds",
            "https://www.vision.caltech.edu/datasets/cub_200_2011/",
            CUB200,
            classes=200,
            train=5_994,
            test=5_794,
            hub=Hub("bentrevett/caltech-ucsd-birds-200-2011"),
        ),
        Dataset(
            "cars",
            "Stanford Cars",
            "https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
            CARS,
            classes=196,
            train=8_144,
            test=8_041,
            hub=Hub("tanganke/stanford_cars"),
        ),
        Dataset(
            "inat-users-120k",
            "iNaturalist-Users-120K: 9,275 users and what they photographed",
            "https://github.com/google-research/google-research/tree/master/"
            "federated_vision_datasets",
            INAT_USERS,
            classes=1_203,
            train=None,
            test=None,
            columns=("user",),
            preprocessing={"shorter_side": 299},
        ),
        Dataset(
            "domainnet",
            "DomainNet: its ten most common classes in six domains, as in FedBN",
            "http://ai.bu.edu/M3SDA/",
            DOMAINNET,
            classes=10,
            train=None,
            test=None,
            columns=("domain",),
            hub=Hub("wltjr1007/DomainNet", columns=("domain",)),
            select=ten_classes,
        ),
        Dataset(
            "pacs",
            "PACS: seven classes in four domains",
            "https://dali-dl.github.io/project_iccv2017.html",
            PACS,
            classes=7,
            train=7_992,
            test=1_999,
            split="a fifth of every class of every domain, held out with a fixed seed",
            columns=("domain",),
            hub=Hub("flwrlabs/pacs", columns=("domain",), test=None),
        ),
    )
}


def preprocessing_of(name: str, size: int | None = None) -> dict[str, Any]:
    """Return the fields of a backbone's preprocessing that are others for a data set.

    Parameters
    ----------
    name : str
        As `load` takes it; images of the user's own are prepared as the backbone has it.
    size : int, optional
        Pixels of the network's images. Default: those of the backbone.
    """
    wanted = dict(DATASETS[name].preprocessing) if name in DATASETS else {}
    if size is not None:
        if "shorter_side" in wanted:
            wanted["shorter_side"] = round(wanted["shorter_side"] * size / 224)
        wanted["size"] = size
    return wanted


def describe(name: str) -> Dataset:
    """Return what is known of a data set.

    Raises
    ------
    ValueError
        If there is none of that name; the text lists the near names, or all of them.
    """
    if name not in DATASETS:
        near = get_close_matches(name, DATASETS, cutoff=0.4) or sorted(DATASETS)
        raise ValueError(
            f"no data set is called {name!r}; did you mean {' or '.join(near)}? One of your own is "
            "folder:PATH, parquet:PATH or table:PATH"
        )
    return DATASETS[name]


def load(
    name: str, data: str | os.PathLike[str] | None = None, reading: Reading = USUAL_NAMES
) -> Split | TableSplit:
    """Return the train and the test set of a data set.

    Parameters
    ----------
    name : str
        A key of `DATASETS`; or ``folder:PATH``, ``parquet:PATH`` or ``table:PATH``, which
        `fedcof.data.datasets.own.read_own` reads: images, or features.
    data : path or "hub", optional
        The folder in which the data sets lie, unpacked as they are distributed, or as Parquet files
        NAME-train.parquet and NAME-test.parquet, or NAME.parquet. With "hub", Hugging Face
        ``datasets`` loads the set by its public id.
    reading : Reading
        What the columns of own data are called.

    Raises
    ------
    DatasetMissingError
        If the set is not there, or not all of it.
    ValueError
        If the name is unknown, or a file is damaged.
    """
    kind, colon, _ = name.partition(":")
    if colon and kind in KINDS:
        return read_own(name, reading)
    dataset = describe(name)
    if dataset.packaged is not None:
        return dataset.packaged()
    if data is None:
        raise DatasetMissingError(
            f"{name} needs its folder: give the one in which {_or(dataset.wanted(Path()))} lies; "
            f"the set is from {dataset.homepage}"
        )
    split = _from_hub(dataset) if data == "hub" else _from_folder(dataset, Path(data).expanduser())
    _check_size(dataset, split, data)
    return split


def only_images(train: ImageSet | FeatureTable, test: ImageSet | FeatureTable) -> Split:
    """Return a train and a test set that have to be of images.

    Raises
    ------
    ValueError
        If they are features.
    """
    if not (isinstance(train, ImageSet) and isinstance(test, ImageSet)):
        raise ValueError("these are features; images are needed here")
    return train, test


def _from_hub(dataset: Dataset) -> Split:
    if dataset.hub is None:
        raise DatasetMissingError(
            f"{dataset.name} is not on the hub; get it from {dataset.homepage}"
        )
    train, test = load_hub(dataset.hub)
    return dataset.select(train), dataset.select(test)


def _from_folder(dataset: Dataset, data: Path) -> Split:
    try:
        whole, *parts = (data / f"{dataset.name}{part}.parquet" for part in ("", "-train", "-test"))
        if parts[0].is_file():
            return read_tables_of_images(parts[:1], parts[1:])
        if whole.is_file():
            return read_tables_of_images([whole])
        for layout in dataset.layouts:
            folder = layout.find(data)
            if folder is not None:
                return layout.read(folder)
    except FileNotFoundError as error:
        raise DatasetMissingError(
            f"{dataset.name} in {data} is incomplete: {error}; it is from {dataset.homepage}"
        ) from error
    raise DatasetMissingError(
        f"{dataset.name} is not in {data}: expected {_or(dataset.wanted(data))}; get it from "
        f"{dataset.homepage} and unpack it there"
    )


def _check_size(dataset: Dataset, split: Split, data: object) -> None:
    train, test = split
    found = {
        "training images": (len(train), dataset.train),
        "test images": (len(test), dataset.test),
        "classes": (len(np.unique(train.labels)), dataset.classes),
    }
    for things, (number, expected) in found.items():
        if expected is not None and number != expected:
            raise DatasetMissingError(
                f"{dataset.name} in {data} has {number:,} {things} and should have {expected:,}; "
                "unpack it again, or take what is there as folder:PATH or parquet:PATH"
            )


def _or(paths: list[Path]) -> str:
    return " or ".join(map(str, paths))
