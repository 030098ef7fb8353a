"""Fashion-MNIST: 10,000 real images that come with the package."""

import gzip
from importlib.resources import files
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedcof.data.images import ImageSet

CLASSES: Final = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
NUM_IMAGES: Final = 10_000


def fashion_mnist(
    num_images: int = NUM_IMAGES, *, test_fraction: float = 0.25, seed: int = 0
) -> tuple[ImageSet, ImageSet]:
    """Return Fashion-MNIST's official test images, split into a train and a test set.

    Parameters
    ----------
    num_images : int
        How many of the 10,000 images to take in all, drawn by ``seed``.
    test_fraction : float
        Share of them that goes to the test set. Both sets hold the classes in equal shares.
    seed : int
        Seed of the draw.

    Returns
    -------
    train, test : ImageSet
        Their images are (28, 28) uint8 arrays, grey.

    Raises
    ------
    ValueError
        If there are not as many images, or not enough for one of each class in both sets.
    """
    num_classes = len(CLASSES)
    if not 0 < test_fraction < 1:
        raise ValueError(f"test_fraction must be between 0 and 1, not {test_fraction}")
    num_test = round(num_images * test_fraction)
    num_train = num_images - num_test
    if num_images > NUM_IMAGES or min(num_train, num_test) < num_classes:
        raise ValueError(
            f"{num_images} images make {num_train} for training and {num_test} for testing; each "
            f"needs at least {num_classes}, one a class, and there are {NUM_IMAGES:,} in all"
        )
    from sklearn.model_selection import train_test_split  # slow to import

    images = _read_idx("t10k-images-idx3-ubyte.gz", header=16).reshape(-1, 28, 28)
    labels = _read_idx("t10k-labels-idx1-ubyte.gz", header=8).astype(np.int64)
    train, test = train_test_split(
        np.arange(NUM_IMAGES),
        train_size=num_train,
        test_size=num_test,
        stratify=labels,
        random_state=seed,
    )
    return (
        ImageSet(images[train], labels[train], CLASSES),
        ImageSet(images[test], labels[test], CLASSES),
    )


def _read_idx(name: str, *, header: int) -> NDArray[np.uint8]:
    content = gzip.decompress(files(__name__).joinpath(name).read_bytes())
    return np.frombuffer(content, dtype=np.uint8, offset=header)
