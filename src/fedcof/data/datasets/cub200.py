"""CUB-200-2011: 200 species of birds, 5,994 images to train on and 5,794 to test on.

Wah et al., "The Caltech-UCSD Birds-200-2011 Dataset", 2011.
"""

from pathlib import Path

import numpy as np

from fedcof.data.datasets.layout import Layout, lines, listed
from fedcof.data.images import ImageSet
from fedcof.data.split import Split


def _read(folder: Path) -> Split:
    names, label_of, is_train, classes = (
        dict(lines(folder / f"{name}.txt"))
        for name in ("images", "image_class_labels", "train_test_split", "classes")
    )
    index = {number: i for i, number in enumerate(classes)}
    images = ImageSet(
        listed(folder / "images", list(names.values()), "images.txt"),
        np.array([index[label_of[image]] for image in names]),
        tuple(name.partition(".")[2].replace("_", " ") for name in classes.values()),
    )
    train = np.array([is_train[image] == "1" for image in names])
    return images.subset(np.flatnonzero(train)), images.subset(np.flatnonzero(~train))


CUB200 = (Layout(("CUB_200_2011",), "images.txt", _read),)
