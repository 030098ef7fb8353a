"""Images from files, bytes, arrays and Pillow: all become RGB pixels."""

from __future__ import annotations

import hashlib
import io
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, overload

import joblib
import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from fedcof.backbones.preprocessing import Picture
from fedcof.data.dicom import SUFFIXES, is_dicom, read_dicom
from fedcof.data.left_out import LeftOut
from fedcof.data.pillow import ROTATION, read_encoded, read_pillow
from fedcof.data.pixels import READING, Window, to_rgb
from fedcof.errors import UnreadableImageError

_BATCH = 512
"""Images that are read before progress is told."""


class Windowed(NamedTuple):
    """An image, and the range of its pixel values that is black to white."""

    source: ImageSource
    window: Window


ImageSource: TypeAlias = (
    str
    | os.PathLike[str]
    | bytes
    | bytearray
    | memoryview
    | NDArray[np.generic]
    | Image.Image
    | Mapping[str, Any]
    | Windowed
)
"""A file; its content; pixels; a picture of Pillow; or a mapping with "bytes" or "path", as Hugging
Face ``datasets`` has them. Any of them may come with a window."""


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
    left_out : LeftOut
        What lay beside the images and is not among them.

    Raises
    ------
    ValueError
        If there are not as many labels, or entries of a column, as images.
    """

    images: Sequence[ImageSource] | NDArray[np.uint8]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    left_out: LeftOut = field(default_factory=LeftOut)

    def __post_init__(self) -> None:
        for name, column in {"labels": self.labels, **self.columns}.items():
            if len(self.images) != len(column):
                raise ValueError(f"{len(self.images)} images have {len(column)} {name}")

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, rows: NDArray[np.int64]) -> ImageSet:
        """Return the images of these rows, in this order; nothing is read."""
        images = self.images
        return replace(
            self,
            images=images[rows] if isinstance(images, np.ndarray) else Rows(images, rows),
            labels=self.labels[rows],
            columns={name: column[rows] for name, column in self.columns.items()},
        )


class LazyImages(Sequence[ImageSource]):
    """Images that are fetched when they are asked for; a slice of them is as lazy."""

    @abstractmethod
    def fetch(self, row: int) -> ImageSource:
        """Return the image of a row from 0 to n - 1."""

    @overload
    def __getitem__(self, index: int) -> ImageSource: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> ImageSource | Rows:
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


class WindowedImages(LazyImages):
    """Images of which all take one range of pixel values for black to white.

    Parameters
    ----------
    images : sequence of images
    window : Window
    """

    def __init__(self, images: Sequence[ImageSource], window: Window) -> None:
        self._images = images
        self._window = window

    def __len__(self) -> int:
        return len(self._images)

    def fetch(self, row: int) -> ImageSource:
        """Return the image of a row with the window."""
        return Windowed(self._images[row], self._window)


def window_of(images: Sequence[ImageSource] | NDArray[np.uint8]) -> Window | None:
    """Return the window of the first of some images, which is that of all of one reading."""
    first = images[0] if len(images) else None
    return first.window if isinstance(first, Windowed) else None


def content_hash(source: ImageSource) -> bytes:
    """Return the SHA-256 of an image's content, the same wherever its file lies.

    Of a picture deeper than 8 bits, how its values become levels is part of it, and so is a window.
    A file that cannot be opened has the hash of no content.
    """
    digest = hashlib.sha256()
    content = _content(source)
    if isinstance(source, Windowed):
        digest.update(READING + np.array(source.window.ends, "<f8").tobytes())
        digest.update(content_hash(source.source))
    else:
        try:
            _update(digest, content)
        except Exception:  # as in read_image
            return bytes(digest.digest_size)
    return digest.digest()


def _update(digest: Any, content: Any) -> None:
    """Add to a digest what an image is in a file, as bytes, in an array or in Pillow."""
    if isinstance(content, np.ndarray):
        digest.update(f"{content.dtype.str}{content.shape}".encode())
        digest.update(b"" if content.dtype in (np.uint8, np.bool_) else READING)
        digest.update(np.ascontiguousarray(content).data)
        return
    if isinstance(content, Image.Image):
        known = (content.mode, content.size, content.getexif().get(ROTATION), content.getpalette())
        digest.update(repr((*known, content.info.get("transparency"))).encode())
        digest.update(READING + content.tobytes())
        return
    with io.BytesIO(content) if isinstance(content, bytes) else Path(content).open("rb") as file:
        digest.update(READING if _may_be_deep(file.read(_HEAD)) else b"")
        file.seek(0)
        while piece := file.read(1 << 20):
            digest.update(piece)


_HEAD = 132
_LARGE = 1 << 28
"""Bytes of a file of which perhaps one page is read."""


def _may_be_deep(head: bytes) -> bool:
    """Return whether the first bytes of a file leave open that it has more than 8 bits.

    The features of those that have 8 for sure stay valid when deeper ones are read otherwise.
    """
    if head.startswith(b"\x89PNG"):
        return head[24:25] == b"\x10"
    return not head.startswith((b"\xff\xd8", b"GIF8", b"BM", b"RIFF"))


def in_memory(source: ImageSource) -> ImageSource:
    """Return an image whose file is read, so that its hash and its pixels are of the same bytes.

    A file that is large, or cannot be read, stays a path.
    """
    if isinstance(source, Windowed):
        return Windowed(in_memory(source.source), source.window)
    content = _content(source)
    if not isinstance(content, str | os.PathLike):
        return source
    try:
        with Path(content).open("rb") as file:
            if os.fstat(file.fileno()).st_size >= _LARGE:
                return source
            return {"bytes": file.read(), "path": os.fspath(content)}
    except (OSError, ValueError):  # a name that no file can have is a ValueError
        return source


def read_image(source: ImageSource) -> NDArray[np.uint8]:
    """Read an image as RGB pixels.

    Grey, palette and CMYK images are converted, transparent ones are laid on white, and a camera's
    EXIF rotation is applied. Of an animation or a stack of pages, the first is taken.

    Integers of more than 8 bits a channel are scaled by the range of the picture, so that its
    lowest value is black and its highest white: no detail is lost, and how bright the picture is as
    a whole is. Where the brightness of different pictures means something, give a `Windowed` image.
    A DICOM file has the window that it names, if none is given. Floating-point pixels need one.

    Parameters
    ----------
    source : path, bytes, array, Pillow image, mapping with "bytes" or "path", or Windowed
        A file or its content, DICOM or any format that Pillow reads; or pixels: (height, width)
        grey, (height, width, 1), RGB (height, width, 3) or RGBA (height, width, 4).

    Returns
    -------
    (height, width, 3) uint8 array

    Raises
    ------
    UnreadableImageError
        If it is missing, damaged, no image, or its values have no known range. The text does not
        name the file.
    ModuleNotFoundError
        If it is DICOM and pydicom is not installed.
    """
    return np.asarray(read_picture(source))


def read_picture(source: ImageSource) -> Picture:
    """Return what `read_image` returns; what Pillow decoded stays a picture of Pillow."""
    window = None
    if isinstance(source, Windowed):
        source, window = source
    content = _content(source)
    if isinstance(content, np.ndarray):
        return to_rgb(content, window)
    try:
        if isinstance(content, Image.Image):
            return read_pillow(content, window)
        if not isinstance(content, bytes | str | os.PathLike):
            raise UnreadableImageError(
                f"a {type(content).__name__} is no image; expected a path, bytes, an array of "
                "NumPy or an image of Pillow"
            )
        head = _beginning(content)
        if not head:
            raise UnreadableImageError("it is empty")
        if is_dicom(head) or _is_dicom_by_name(source):
            found = read_dicom(content, window)
            return to_rgb(found.values, found.window, inverted=found.inverted)
        return read_encoded(content, window)
    except (UnreadableImageError, ModuleNotFoundError):
        raise
    except UnidentifiedImageError:
        raise UnreadableImageError(
            "it is damaged, or of a format or a type of pixel that Pillow does not read"
        ) from None
    except FileNotFoundError:
        raise UnreadableImageError("there is no such file") from None
    except Exception as error:  # on damaged bytes, the readers raise whatever they meet
        raise UnreadableImageError(f"{type(error).__name__}: {error}") from error


def _content(source: ImageSource) -> Any:
    """Return what a mapping or a view of bytes holds, and anything else as it is."""
    if isinstance(source, Mapping):
        content = source.get("bytes")
        source = source.get("path") or b"" if content is None else content
    return bytes(source) if isinstance(source, bytearray | memoryview) else source


def _beginning(content: str | os.PathLike[str] | bytes) -> bytes:
    if isinstance(content, bytes):
        return content[:_HEAD]
    with Path(content).open("rb") as file:
        return file.read(_HEAD)


def _is_dicom_by_name(source: ImageSource) -> bool:
    name = source.get("path") if isinstance(source, Mapping) else source
    return isinstance(name, str | os.PathLike) and os.fspath(name).lower().endswith(SUFFIXES)


def image_name(source: ImageSource, row: int) -> str:
    """Return what people know an image by: its file, else its row."""
    if isinstance(source, Windowed):
        return image_name(source.source, row)
    if isinstance(source, Mapping):
        source = source.get("path") or b""
    return str(source) if isinstance(source, str | os.PathLike) else f"image {row}"


def image_fault(source: ImageSource) -> str:
    """Return why an image cannot be read, or an empty text."""
    try:
        read_picture(source)
    except UnreadableImageError as error:
        return str(error)
    return ""


def unreadable_images(
    images: Sequence[ImageSource] | NDArray[np.uint8],
    advance: Callable[[int], None] = lambda steps: None,
) -> dict[int, str]:
    """Return the rows of the images that cannot be read, and why.

    Parameters
    ----------
    images : sequence of images
    advance : callable
        Called with the number of images done since the last call.
    """
    faults: dict[int, str] = {}
    with ThreadPoolExecutor(joblib.cpu_count()) as pool:
        for start in range(0, len(images), _BATCH):
            found = list(pool.map(image_fault, images[start : start + _BATCH]))
            faults |= {row: text for row, text in enumerate(found, start) if text}
            advance(len(found))
    return faults
