"""iNaturalist-Users-120K: 9,275 users, who photographed 1,203 species.

Hsu, Qi and Brown, "Federated Visual Classification with Real-World Data Distribution", 2020. Their
release says who holds which image of the iNaturalist competition of 2017; the images themselves are
the competition's, ``train_val_images``, beside the folder of the release or in it.
"""

import csv
import os
from pathlib import Path

import numpy as np

from fedcof.data.datasets.layout import Layout
from fedcof.data.images import ImageSet
from fedcof.data.split import Split

_TRAIN, _TEST = "federated_train_user_120k.csv", "test.csv"


def _read(folder: Path) -> Split:
    train, test = _columns(folder / _TRAIN), _columns(folder / _TEST)
    paths = _find(folder, {*train["image_id"], *test["image_id"]})
    numbers = sorted({*train["class"], *test["class"]}, key=int)
    index = {number: i for i, number in enumerate(numbers)}
    sets = []
    for columns, users in ((train, {"user": np.array(train["user_id"])}), (test, {})):
        images = [paths[image] for image in columns["image_id"]]
        labels = np.array([index[number] for number in columns["class"]])
        sets.append(ImageSet(images, labels, tuple(numbers), users))
    return sets[0], sets[1]


def _columns(path: Path) -> dict[str, list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        return dict(zip(header, map(list, zip(*reader, strict=True)), strict=True))


def _find(folder: Path, wanted: set[str]) -> dict[str, str]:
    """Return where the images lie; the release knows their names only."""
    candidates = [folder / "train_val_images", folder.parent / "train_val_images"]
    root = next((path for path in candidates if path.is_dir()), None)
    if root is None:
        raise FileNotFoundError(
            f"{candidates[1]} is missing, the images of the competition of 2017"
        )
    found = {}
    for parent, _, files in os.walk(root):
        for file in files:
            image = file.partition(".")[0]
            if image in wanted:
                found[image] = os.path.join(parent, file)
    missing = sorted(wanted - found.keys())
    if missing:
        raise FileNotFoundError(
            f"{missing[0]}.jpg is missing in {root}"
            + (f", and {len(missing) - 1:,} more" if len(missing) > 1 else "")
            + f" of the {len(wanted):,} images in {_TRAIN} and {_TEST}"
        )
    return found


INAT_USERS = (Layout(("inaturalist-user-120k",), _TRAIN, _read),)
