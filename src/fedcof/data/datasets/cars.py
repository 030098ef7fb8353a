"""Stanford Cars: 196 models of cars, 8,144 images to train on and 8,041 to test on.

Krause et al., "3D Object Representations for Fine-Grained Categorization", 2013. The labels of the
test images are in a file of their own, ``cars_test_annos_withlabels.mat``, in the folder or its
``devkit``.
"""

from pathlib import Path
from typing import Any

import numpy as np

from fedcof.data.datasets.layout import Layout, listed
from fedcof.data.images import ImageSet
from fedcof.data.split import Split

_TEST = "cars_test_annos_withlabels.mat"


def _read(folder: Path) -> Split:
    test = folder / "devkit" / _TEST
    names = _load(folder / "devkit" / "cars_meta.mat", "class_names")
    classes = tuple(map(str, names))
    return (
        _annotated(folder / "cars_train", folder / "devkit" / "cars_train_annos.mat", classes),
        _annotated(folder / "cars_test", test if test.exists() else folder / _TEST, classes),
    )


def _annotated(folder: Path, annotations: Path, classes: tuple[str, ...]) -> ImageSet:
    rows = _load(annotations, "annotations")
    names = rows["fname"].astype(str).tolist()
    return ImageSet(
        listed(folder, names, annotations.name), rows["class"].astype(np.int64) - 1, classes
    )


def _load(path: Path, name: str) -> Any:
    from scipy.io import loadmat

    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing")
    return np.atleast_1d(loadmat(path, squeeze_me=True)[name])


CARS = (Layout(("stanford_cars", "StanfordCars", "cars"), "devkit/cars_train_annos.mat", _read),)
