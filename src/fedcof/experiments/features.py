"""The features of a data set under a backbone, from the cache where they are in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedcof import backbones
from fedcof.data import FeatureTable, ImageSet, datasets, extract_features, load_table
from fedcof.progress import progress_bar


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """A training and a test set of features, and the fingerprint of the backbone they are of.

    Beside them stand the images of both, where there are any: what the backbone is trained on.
    """

    train: FeatureTable
    test: FeatureTable
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
        return FeatureSet(*load_table(Path(path).expanduser()), "")
    train, test = datasets.load(dataset, data)
    network = backbones.get(backbone)

    def extract(images: ImageSet, part: str) -> tuple[FeatureTable, ImageSet]:
        title = f"Features: {dataset}, {part}, {backbone}"
        with progress_bar(title, len(images), unit="images") as advance:
            found = extract_features(images.images, network, advance=advance)
        kept = images.subset(found.kept)
        return FeatureTable(found.features, kept.labels, kept.classes, kept.columns), kept

    train_features, train = extract(train, "train")
    test_features, test = extract(test, "test")
    return FeatureSet(train_features, test_features, network.fingerprint[:12], (train, test))
