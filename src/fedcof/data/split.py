"""The split of a data set into one to train on and one to test on."""

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.data.images import ImageSet

TEST_FRACTION = 0.2
SEED = 0

Split = tuple[ImageSet, ImageSet]
"""A train and a test set."""


def stratified_rows(strata: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to train on and those to test on, both in ascending order.

    A fifth of every stratum is for the test, drawn by a seed that never changes, so that everybody
    has the same split.

    Parameters
    ----------
    strata : (n,) array
        The class of each sample, or whatever else both sets should hold in equal shares.

    Raises
    ------
    ValueError
        If a stratum has one sample only.
    """
    from sklearn.model_selection import train_test_split  # slow to import

    strata = np.asarray(strata)
    train, test = train_test_split(
        np.arange(len(strata)), test_size=TEST_FRACTION, stratify=strata, random_state=SEED
    )
    return np.sort(train), np.sort(test)


def hold_out(images: ImageSet) -> Split:
    """Hold out a fifth of every class, and of every domain where there are domains."""
    strata = np.array(images.classes)[images.labels]
    if "domain" in images.columns:
        strata = np.char.add(np.char.add(images.columns["domain"].astype(str), "/"), strata)
    train, test = stratified_rows(strata)
    return images.subset(train), images.subset(test)


def train_and_test(path: Path, suffixes: tuple[str, ...]) -> tuple[list[Path], list[Path]] | None:
    """Return the files ``train*`` of a folder, and its files ``test*`` or ``val*``.

    Returns
    -------
    pair of lists of Path, or None
        None if ``path`` is no folder.

    Raises
    ------
    FileNotFoundError
        If the folder lacks one of the two.
    """
    if not path.is_dir():
        return None
    files = sorted(file for file in path.rglob("*") if file.suffix in suffixes)
    train = [file for file in files if file.name.startswith("train")]
    test = [file for file in files if file.name.startswith(("test", "val"))]
    if not train or not test:
        raise FileNotFoundError(
            f"{path} has no files train* and test* that end in {', '.join(suffixes)}"
        )
    return train, test
