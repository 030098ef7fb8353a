"""PACS: 9,991 images of 7 classes in 4 domains.

Li et al., "Deeper, Broader and Artier Domain Generalization", 2017. There is a folder a domain, and
in it one a class. There is no official test set: a fifth of every class of every domain is held
out, with a fixed seed.
"""

from pathlib import Path

import numpy as np

from fedcof.data.datasets.layout import Layout
from fedcof.data.folders import image_folders
from fedcof.data.images import ImageSet
from fedcof.data.split import Split, hold_out

DOMAINS = ("art_painting", "cartoon", "photo", "sketch")


def _read(folder: Path) -> Split:
    sets = image_folders([folder / domain for domain in DOMAINS])
    return hold_out(
        ImageSet(
            [path for images in sets for path in images.images],
            np.concatenate([images.labels for images in sets]),
            sets[0].classes,
            {"domain": np.repeat(DOMAINS, [len(images) for images in sets])},
        )
    )


PACS = (Layout(("PACS", "pacs", "kfold", "PACS/kfold", "pacs/images"), "art_painting", _read),)
