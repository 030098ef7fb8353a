"""Data sets of the user's own, which no registry knows."""

from pathlib import Path

from fedcof.data.folders import image_parts, one_part
from fedcof.data.split import Split, hold_out


def read_folder(path: Path) -> Split:
    """Return the images of a folder with one sub-folder a class.

    Where it has sub-folders ``train`` and ``test`` (or ``val``), these have one a class; else a
    fifth of every class is held out.
    """
    parts = image_parts(path)
    if "train" in parts and "test" in parts:
        return parts["train"], parts["test"]
    return hold_out(one_part(parts, "train"))
