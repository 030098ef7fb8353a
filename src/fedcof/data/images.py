"""Images from files, bytes and arrays: all become RGB pixels."""

import hashlib
import io
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from fedcof.errors import UnreadableImageError

ImageSource: TypeAlias = str | os.PathLike[str] | bytes | NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Labelled images.

    Parameters
    ----------
    images : sequence of n paths, encoded images (bytes) or pixel arrays
        Read when they are needed, so a set may be larger than the memory.
    labels : (n,) int array
        Index into ``classes``.
    classes : tuple of str
        Names of the classes.
    columns : mapping of str to (n,) array
        What else is known of every image, such as its "user" or "domain".

    Raises
    ------
    ValueError
        If there are not as many labels, or entries of a column, as images.
    """

    images: Sequence[ImageSource] | NDArray[np.uint8]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, column in {"labels": self.labels, **self.columns}.items():
            if len(self.images) != len(column):
                raise ValueError(f"{len(self.images)} images have {len(column)} {name}")

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, rows: NDArray[np.int64]) -> "ImageSet":
        """Return the images of these rows, in this order; nothing is read."""
        images = self.images
        return ImageSet(
            images[rows] if isinstance(images, np.ndarray) else Rows(images, rows),
            self.labels[rows],
            self.classes,
            {name: column[rows] for name, column in self.columns.items()},
        )


class LazyImages(Sequence[ImageSource]):
    """Images that are fetched when they are asked for; a slice of them is as lazy."""

    @abstractmethod
    def fetch(self, row: int) -> ImageSource:
        """Return the image of a row from 0 to n - 1."""

    @overload
    def __getitem__(self, index: int) -> ImageSource: ...
    @overload
    def __getitem__(self, index: slice) -> "Rows": ...
    def __getitem__(self, index: int | slice) -> "ImageSource | Rows":
        if isinstance(index, slice):
            return Rows(self, np.arange(len(self))[index])
        return self.fetch(range(len(self))[index])


class Rows(LazyImages):
    """Some images of a sequence.

    Parameters
    ----------
    images : sequence of images
    rows : (n,) int array
        Which, and in what order.
    """

    def __init__(self, images: Sequence[ImageSource], rows: NDArray[np.int64]) -> None:
        self._images = images
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def fetch(self, row: int) -> ImageSource:
        """Return the image of a row."""
        return self._images[int(self._rows[row])]


def image_folder(root: str | os.PathLike[str]) -> ImageSet:
    """List the images of a folder with one sub-folder a class.

    The classes are the sub-folders in alphabetical order. Images may lie deeper below them; files
    that do not have the name of an image, and hidden ones, are passed over.

    Raises
    ------
    FileNotFoundError
        If the folder is missing, has no sub-folders, or one of them has no image.
    """
    root = Path(root)
    if not root.is_dir():
        raise FileNotFoundError(f"no image folder at {root}")
    folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not folders:
        raise FileNotFoundError(f"{root} has no sub-folders; expected one for each class")
    per_class = [_list_images(folder) for folder in folders]
    empty = [folder.name for folder, paths in zip(folders, per_class, strict=True) if not paths]
    if empty:
        raise FileNotFoundError(
            f"{root} has no images in its sub-folders {', '.join(empty)}; remove or fill them"
        )
    return ImageSet(
        images=[path for paths in per_class for path in paths],
        labels=np.repeat(np.arange(len(folders)), [len(paths) for paths in per_class]),
        classes=tuple(folder.name for folder in folders),
    )


def image_folders(roots: Sequence[Path]) -> list[ImageSet]:
    """List the images of several folders with the same classes.

    Raises
    ------
    FileNotFoundError
        As `image_folder`.
    ValueError
        If a folder has other classes than the first.
    """
    sets = [image_folder(root) for root in roots]
    for root, images in zip(roots, sets, strict=True):
        if images.classes != sets[0].classes:
            other = set(images.classes) ^ set(sets[0].classes)
            raise ValueError(
                f"{root} has other classes than {roots[0]}: {', '.join(sorted(other))} are only in "
                "one of them"
            )
    return sets


def _list_images(folder: Path) -> list[Path]:
    suffixes = Image.registered_extensions()
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in suffixes and not path.name.startswith(".") and path.is_file()
    )


def content_hash(source: ImageSource) -> bytes:
    """Return the SHA-256 of an image's content, the same wherever its file lies.

    A file that cannot be opened has the hash of no content.
    """
    if isinstance(source, np.ndarray):
        digest = hashlib.sha256(f"{source.dtype.str}{source.shape}".encode())
        digest.update(np.ascontiguousarray(source).data)
        return digest.digest()
    if isinstance(source, bytes):
        return hashlib.sha256(source).digest()
    try:
        with open(source, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return bytes(hashlib.sha256().digest_size)


def read_image(source: ImageSource) -> NDArray[np.uint8]:
    """Read an image as RGB pixels.

    Grey, palette and CMYK images are converted, 16-bit ones are reduced to 8 bits, transparent
    ones are laid on white, and a camera's EXIF rotation is applied. Of an animation, the first
    frame is taken.

    Parameters
    ----------
    source : path, bytes or array
        A file or its content in any format that Pillow reads; or pixels: (height, width) grey,
        (height, width, 1), RGB (height, width, 3) or RGBA (height, width, 4), uint8, uint16 or
        bool.

    Returns
    -------
    (height, width, 3) uint8 array

    Raises
    ------
    UnreadableImageError
        If it is missing, damaged, or no image. The text does not name the file.
    """
    if isinstance(source, np.ndarray):
        image = _from_array(source)
    else:
        try:
            file = io.BytesIO(source) if isinstance(source, bytes) else source
            with Image.open(file) as opened:
                opened.load()
                image = ImageOps.exif_transpose(opened)
        except Exception as error:  # on damaged bytes, Pillow's readers raise whatever they meet
            raise UnreadableImageError(f"{type(error).__name__}: {error}") from error
    return np.array(_to_rgb(image))


def _from_array(pixels: NDArray[np.generic]) -> Image.Image:
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if (
        not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (3, 4)))
        or not pixels.size
    ):
        raise UnreadableImageError(
            f"an array of shape {pixels.shape} is no image; expected (height, width) or "
            "(height, width, 1, 3 or 4)"
        )
    if pixels.dtype == np.bool_:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    elif pixels.dtype == np.uint16:
        pixels = _reduce_to_8_bits(pixels)
    elif pixels.dtype != np.uint8:
        raise UnreadableImageError(
            f"pixels of dtype {pixels.dtype} have no known range; expected uint8, uint16 or bool"
        )
    return Image.fromarray(np.ascontiguousarray(pixels))


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise UnreadableImageError("floating-point pixels have no known range; expected integers")
    if image.mode.startswith("I"):  # 16-bit grey, which Pillow would clip at 255
        image = Image.fromarray(_reduce_to_8_bits(np.asarray(image)))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return image.convert("RGB")


def _reduce_to_8_bits(pixels: NDArray[np.generic]) -> NDArray[np.uint8]:
    return (np.clip(pixels.astype(np.int64), 0, 65535) // 257).astype(np.uint8)
