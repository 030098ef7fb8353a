"""How images are prepared for a backbone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

ImageArray = NDArray[np.uint8]
Picture: TypeAlias = ImageArray | Image.Image
"""RGB levels: an array (height, width, 3), or a picture of Pillow, which is not copied then."""

_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}

_SMALL = 3


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """From an RGB image of any size to the tensor that a network was trained on.

    The image is resized to a square, or its centre is cut out; its channels are put in the
    network's order, and every channel becomes ``(value - mean) / scale``. The defaults are those of
    torchvision's ImageNet models, but that the whole image is taken.

    Parameters
    ----------
    size : int
        Height and width of the network's input, in pixels.
    resampling : {"bilinear", "bicubic", "lanczos", "nearest"}
        Filter of the resize, antialiased as in Pillow.
    color_order : {"RGB", "BGR"}
        Order of the network's input channels.
    mean, scale : tuple of 3 floats
        Per channel, in the network's order, for pixel values from 0 to 255.
    shorter_side : int, optional
        Pixels that the shorter side is resized to, at least ``size``; then the centre is cut out.
        Default: the whole image is squashed to the square.

    Raises
    ------
    ValueError
        If a field has a value that no image can be prepared with; the field is named.
    """

    size: int = 224
    resampling: Literal["bilinear", "bicubic", "lanczos", "nearest"] = "bilinear"
    color_order: Literal["RGB", "BGR"] = "RGB"
    mean: tuple[float, float, float] = (123.675, 116.28, 103.53)
    scale: tuple[float, float, float] = (58.395, 57.12, 57.375)
    shorter_side: int | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"Preprocessing.size must be at least 1 pixel, not {self.size}")
        if self.resampling not in _RESAMPLING:
            raise ValueError(
                f"Preprocessing.resampling must be one of {', '.join(_RESAMPLING)}, "
                f"not {self.resampling!r}"
            )
        if self.color_order not in ("RGB", "BGR"):
            raise ValueError(
                f"Preprocessing.color_order must be RGB or BGR, not {self.color_order!r}"
            )
        for field in ("mean", "scale"):
            values = np.asarray(getattr(self, field), dtype=np.float64)
            if values.shape != (3,) or not np.isfinite(values).all():
                raise ValueError(
                    f"Preprocessing.{field} must be 3 finite numbers, one a channel, "
                    f"not {getattr(self, field)!r}"
                )
            # One spelling of equal numbers: the fingerprint is made of these texts.
            object.__setattr__(self, field, tuple(values.tolist()))
        if min(self.scale) <= 0:
            raise ValueError(f"Preprocessing.scale must be positive, not {self.scale!r}")
        if self.shorter_side is not None and self.shorter_side < self.size:
            raise ValueError(
                f"Preprocessing.shorter_side must be at least size, {self.size} pixels, which are "
                f"cut out of it, not {self.shorter_side}"
            )

    def __call__(self, image: ImageArray) -> NDArray[np.float32]:
        """Prepare one image.

        Parameters
        ----------
        image : (height, width, 3) uint8 array
            RGB pixels.

        Returns
        -------
        (3, size, size) float32 array

        Raises
        ------
        ValueError
            If ``image`` is not an RGB uint8 array.
        """
        image = self.resize(image)
        if self.color_order == "BGR":
            image = image[:, :, ::-1]
        mean = np.asarray(self.mean, dtype=np.float32)[:, None, None]
        inverse_scale = (1 / np.asarray(self.scale)).astype(np.float32)[:, None, None]
        tensor = np.empty((3, self.size, self.size), dtype=np.float32)
        np.subtract(image.transpose(2, 0, 1), mean, out=tensor)
        tensor *= inverse_scale
        return tensor

    def is_small(self, height: int, width: int) -> bool:
        """Return whether an image is kept and sent at its own size, and resized beside the network.

        Its sides are at most a third of the network's: it then has less than a ninth of the bytes,
        and its resize is a small product of matrices. Where a centre is cut out, no image is small.
        """
        return self.shorter_side is None and _SMALL * max(height, width) <= self.size

    def resize(self, image: Picture) -> ImageArray:
        """Return an image, or its centre, at the network's size.

        Parameters
        ----------
        image : (height, width, 3) uint8 array, or picture of Pillow
            RGB pixels.

        Returns
        -------
        (size, size, 3) uint8 array

        Raises
        ------
        ValueError
            If ``image`` is not RGB of 8 bits.
        """
        check_rgb(image)
        height, width = own_size = size_of(image)
        if self.shorter_side is None:
            height = width = self.size
        else:  # the longer side is cut off to a whole pixel, as torchvision's Resize does
            shorter = min(height, width)
            height, width = (side * self.shorter_side // shorter for side in (height, width))
        if own_size != (height, width):
            # Along the rows, then along the columns: in one step, which of the two comes first, and
            # so how pixels are rounded, depends on the version of Pillow.
            filter_ = _RESAMPLING[self.resampling]
            whole = Image.fromarray(image) if isinstance(image, np.ndarray) else image
            rows = whole.resize((width, whole.height), filter_)
            image = rows.resize((width, height), filter_)
        # Half a pixel goes to the even one, as in torchvision's CenterCrop.
        top, left = (round((side - self.size) / 2) for side in (height, width))
        return np.asarray(image)[top : top + self.size, left : left + self.size]

    def as_batch(self, images: Sequence[ImageArray]) -> ImageArray:
        """Return images as one array, in which they travel to where the network runs.

        Parameters
        ----------
        images : sequence of (height, width, 3) uint8 arrays
            At least one.

        Returns
        -------
        (n, height, width, 3) uint8 array
            Of their own size where they all have one and it is small, else of the network's.

        Raises
        ------
        ValueError
            If one is not an RGB uint8 array.
        """
        for image in images:
            check_rgb(image)
        shapes = {image.shape[:2] for image in images}
        if len(shapes) == 1 and self.is_small(*shapes.pop()):
            return np.stack(images)
        return np.stack([self.resize(image) for image in images])


def size_of(image: Picture) -> tuple[int, int]:
    """Return the height and the width of an image."""
    height, width = image.shape[:2] if isinstance(image, np.ndarray) else image.size[::-1]
    return height, width


def check_rgb(image: Picture) -> None:
    """Check that an image is RGB pixels of 8 bits.

    Raises
    ------
    ValueError
        If not.
    """
    if isinstance(image, Image.Image):
        if image.mode != "RGB":
            raise ValueError(f"expected an RGB picture of Pillow, not one of the mode {image.mode}")
        return
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise ValueError(
            f"expected an RGB image, a (height, width, 3) uint8 array, not a {image.shape} "
            f"{image.dtype} array; fedcof.data.read_image makes one from any image"
        )
