"""DomainNet, its ten most common classes, in six domains.

Peng et al., "Moment Matching for Multi-Source Domain Adaptation", 2019. The ten classes are those
of FedBN (Li et al., 2021), which the paper follows; FedBN takes at most 500 images a domain, here
they are all taken. The official lists are ``clipart_train.txt``, ``clipart_test.txt`` and so on.
"""

from pathlib import Path

import numpy as np

from fedcof.data.datasets.layout import Layout, lines, listed
from fedcof.data.images import ImageSet
from fedcof.data.split import Split

DOMAINS = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
CLASSES = (
    "bird",
    "feather",
    "headphones",
    "ice_cream",
    "teapot",
    "tiger",
    "whale",
    "windmill",
    "wine_glass",
    "zebra",
)


def _read(folder: Path) -> Split:
    return _read_part(folder, "train"), _read_part(folder, "test")


def _read_part(folder: Path, part: str) -> ImageSet:
    images: list[Path] = []
    labels, domains = [], []
    for domain in DOMAINS:
        list_name = f"{domain}_{part}.txt"
        names = [name for name, _ in lines(folder / list_name) if name.split("/")[1] in CLASSES]
        images += listed(folder, names, list_name)
        labels += [CLASSES.index(name.split("/")[1]) for name in names]
        domains += [domain] * len(names)
    return ImageSet(images, np.array(labels, np.int64), CLASSES, {"domain": np.array(domains)})


def ten_classes(images: ImageSet) -> ImageSet:
    """Keep the ten classes of DomainNet's 345."""
    names = np.array(images.classes)[images.labels]
    kept = images.subset(np.flatnonzero(np.isin(names, CLASSES)))
    index = {images.classes.index(name): i for i, name in enumerate(CLASSES)}
    labels = np.array([index[label] for label in kept.labels.tolist()], np.int64)
    return ImageSet(kept.images, labels, CLASSES, kept.columns)


DOMAINNET = (Layout(("domainnet", "DomainNet"), "clipart_train.txt", _read),)
