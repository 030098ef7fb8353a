"""The features of a data set under a backbone, from the cache where they are in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedcof import backbones
from fedcof.data import FeatureTable, ImageSet, Reading, datasets, extract_features
from fedcof.data.reading import USUAL_NAMES
from fedcof.progress import progress_bar


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """A training and a test set of features, and the fingerprint of the backbone they are of.

    Beside them stand the images of both, where there are any: what the backbone is trained on; and
    the fields of its preprocessing that are others for this data set.
    """

    train: FeatureTable
    test: FeatureTable
    fingerprint: str
    images: tuple[ImageSet, ImageSet] | None = None
    preprocessing: Mapping[str, Any] = field(default_factory=dict)


def is_features(dataset: str, reading: Reading = USUAL_NAMES) -> bool:
    """Return whether a data set is one's own table of features, which no backbone is asked for."""
    if ":" not in dataset:
        return False
    return isinstance(datasets.load(dataset, reading=reading)[0], FeatureTable)


def load_features(
    dataset: str, backbone: str, data: str | None = None, reading: Reading = USUAL_NAMES
) -> FeatureSet:
    """Return the features of a data set's images under a backbone.

    Parameters
    ----------
    dataset, backbone : str
        As `fedcof.data.datasets.load` and `fedcof.backbones.get` take them. Where the data set is a
        table of features, these are taken, whatever the backbone.
    data : str, optional
        The folder in which the data sets lie, or "hub".
    reading : Reading
        What the columns of own data are called.

    Raises
    ------
    FedCOFError
        If the data set or the backbone's weights are not there.
    """
    first, second = datasets.load(dataset, data, reading)
    if isinstance(first, FeatureTable) and isinstance(second, FeatureTable):
        return FeatureSet(first, second, "")
    assert isinstance(first, ImageSet)
    assert isinstance(second, ImageSet)
    preprocessing = datasets.preprocessing_of(dataset)
    network = backbones.get(backbone, preprocessing=preprocessing)

    def extract(images: ImageSet, part: str) -> tuple[FeatureTable, ImageSet]:
        title = f"Features: {dataset}, {part}, {backbone}"
        with progress_bar(title, len(images), unit="images") as advance:
            found = extract_features(images.images, network, advance=advance)
        kept = images.subset(found.kept)
        return FeatureTable(found.features, kept.labels, kept.classes, kept.columns), kept

    train_features, train = extract(first, "train")
    test_features, test = extract(second, "test")
    return FeatureSet(
        train_features, test_features, network.fingerprint[:12], (train, test), preprocessing
    )
