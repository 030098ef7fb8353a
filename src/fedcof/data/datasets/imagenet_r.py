"""ImageNet-R: 30,000 renditions of 200 classes of ImageNet.

Hendrycks et al., "The Many Faces of Robustness", 2021. It was made for tests and has no training
set. Continual learning splits it at random into 24,000 images to train on and 6,000 to test on,
which the paper follows; its draw is not known, so ours is a fifth of every class with a fixed seed.
The classes are WordNet ids, as the folders.
"""

from pathlib import Path

from fedcof.data.datasets.layout import Layout
from fedcof.data.folders import image_folder
from fedcof.data.split import Split, hold_out


def _read(folder: Path) -> Split:
    return hold_out(image_folder(folder, first="class"))


IMAGENET_R = (Layout(("imagenet-r",), "n01443537", _read),)
