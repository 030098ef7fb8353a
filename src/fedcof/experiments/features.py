"""The features of a data set under a backbone, from the cache where they are in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcof import backbones
from fedcof.data import ImageSet, datasets, extract_features, load_table
from fedcof.progress import progress_bar


class Samples(NamedTuple):
    """Labelled features.

    Parameters
    ----------
    features : ndarray of float, shape (n, dim)
    labels : ndarray of int64, shape (n,)
    columns : mapping of str to ndarray, shape (n,)
        What else the data set says of every sample, such as its user or domain.
    """

    features: NDArray[np.floating[Any]]
    labels: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """A training and a test set of features, and the fingerprint of the backbone they are of.

    Beside them stand the images of both, where there are any: what the backbone is trained on.
    """

    train: Samples
    test: Samples
    fingerprint: str
    images: tuple[ImageSet, ImageSet] | None = None


def load_features(dataset: str, backbone: str, data: str | None = None) -> FeatureSet:
    """Return the features of a data set's images under a backbone.

    Parameters
    ----------
    dataset, backbone : str
        As `fedcof.data.datasets.load` and `fedcof.backbones.get` take them; or ``table:PATH``,
        features as `fedcof.data.load_table` takes them, whatever the backbone.
    data : str, optional
        The folder in which the data sets lie, or "hub".

    Raises
    ------
    FedCOFError
        If the data set or the backbone's weights are not there.
    """
    kind, _, path = dataset.partition(":")
    if kind == "table":
        tables = load_table(Path(path).expanduser())
        first, second = (Samples(one.features, one.labels, one.columns) for one in tables)
        return FeatureSet(first, second, "")
    train, test = datasets.load(dataset, data)
    network = backbones.get(backbone)

    def extract(images: ImageSet, part: str) -> tuple[Samples, ImageSet]:
        title = f"Features: {dataset}, {part}, {backbone}"
        with progress_bar(title, len(images), unit="images") as advance:
            found = extract_features(images.images, network, advance=advance)
        kept = images.subset(found.kept)
        return Samples(found.features, kept.labels, kept.columns), kept

    (train_samples, train), (test_samples, test) = extract(train, "train"), extract(test, "test")
    return FeatureSet(train_samples, test_samples, network.fingerprint[:12], (train, test))
