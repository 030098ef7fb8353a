"""Data sets of the user's own, which no registry knows."""

from pathlib import Path

from fedcof.data.images import image_folder, image_folders
from fedcof.data.split import Split, hold_out


def read_folder(path: Path) -> Split:
    """Return the images of a folder with one sub-folder a class.

    Where it has sub-folders ``train`` and ``test`` (or ``val``), these have one a class; else a
    fifth of every class is held out.
    """
    test = next((path / name for name in ("test", "val") if (path / name).is_dir()), None)
    if test is None or not (path / "train").is_dir():
        return hold_out(image_folder(path))
    first, second = image_folders([path / "train", test])
    return first, second
