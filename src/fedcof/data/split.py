"""The split of a data set into one to train on and one to test on."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.data.images import ImageSet
from fedcof.data.tables import FeatureTable
from fedcof.errors import OwnDataError

TEST_FRACTION = 0.2
SEED = 0

Split = tuple[ImageSet, ImageSet]
"""A train and a test set of images."""

TableSplit = tuple[FeatureTable, FeatureTable]
"""A train and a test set of features."""


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
    OwnDataError
        If a stratum has one sample only.
    """
    from sklearn.model_selection import train_test_split  # slow to import

    strata = np.asarray(strata)
    names, sizes = np.unique(strata, return_counts=True)
    if sizes.size == 0 or sizes.min() < 2:
        alone = names[sizes < 2].tolist()
        raise OwnDataError(
            "a fifth of every class is held out for the test, but there is one sample only of "
            f"{', '.join(map(repr, alone[:5]))}; give a train and a test set of your own"
        )
    train, test = train_test_split(
        np.arange(len(strata)), test_size=TEST_FRACTION, stratify=strata, random_state=SEED
    )
    return np.sort(train), np.sort(test)


def hold_out(images: ImageSet) -> Split:
    """Hold out a fifth of every class, and of every domain where there are domains."""
    train, test = _rows(images)
    return images.subset(train), images.subset(test)


def hold_out_features(table: FeatureTable) -> TableSplit:
    """Hold out a fifth of every class, and of every domain where there are domains."""
    train, test = _rows(table)
    return table.subset(train), table.subset(test)


def _rows(samples: ImageSet | FeatureTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    strata = np.array(samples.classes)[samples.labels]
    if "domain" in samples.columns:
        strata = np.char.add(np.char.add(samples.columns["domain"].astype(str), "/"), strata)
    return stratified_rows(strata)
