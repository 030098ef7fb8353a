"""Pixel values of any type as the RGB levels, 0 to 255, that a network takes.

Values of 8 bits are levels already. Deeper ones (12 bits in 16, 16 and 32 bits, floats) have no
range that all agree on, so each picture's own range, its lowest to its highest value, becomes 0 to
255; or one range that is given for all pictures, the window, does. With its own range a picture
keeps its detail, but what is equally dark in two pictures may become two levels: sites whose values
mean the same everywhere (Hounsfield units, a sensor's counts) take one window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedcof.errors import SettingError, UnreadableImageError

READING = b"deep-1"
"""Part of the key of a deep picture's features in the cache: how its values become levels."""

_FEW_LEVELS = 32


@dataclass(frozen=True)
class Window:
    """A range of pixel values: the low end becomes black, the high end white.

    Parameters
    ----------
    low, high : float
        Values outside are as the nearer end.

    Raises
    ------
    SettingError
        If they are not finite, or not ascending.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise SettingError("window", f"must be LOW:HIGH, LOW below HIGH, it is {self}")

    @classmethod
    def parse(cls, text: str) -> Window | None:
        """Return the window of a text "LOW:HIGH"; None for an empty text.

        Examples
        --------
        >>> Window.parse("-160:240")
        Window(low=-160.0, high=240.0)
        """
        if not text:
            return None
        low, _, high = text.partition(":")
        try:
            ends = float(low), float(high)
        except ValueError:
            raise SettingError(
                "window", f"must be LOW:HIGH in pixel values, such as 0:4095, it is {text!r}"
            ) from None
        return cls(*ends)

    @property
    def ends(self) -> tuple[float, float]:
        """The low and the high end."""
        return self.low, self.high

    def __str__(self) -> str:
        return f"{self.low:.12g}:{self.high:.12g}"


def own_range(values: NDArray[Any]) -> Window | None:
    """Return the lowest and the highest of pixel values; None if all are the same."""
    low, high = float(values.min()), float(values.max())
    return Window(low, high) if low < high else None


def to_levels(values: NDArray[Any], window: Window | None) -> NDArray[np.uint8]:
    """Return pixel values as levels from 0 to 255.

    Parameters
    ----------
    values : array of numbers or bools
        bool and uint8 are levels as they are, unless there is a window. Other integers take the
        window, else their own range; of one value only, they are black.
    window : Window, optional
        Floating-point values need one: 0 to 1, 0 to 255 and Hounsfield units are all usual.

    Raises
    ------
    UnreadableImageError
        If the values are no numbers or not finite; are floats without a window; have 8 bits and the
        window reaches beyond these; or if of many values few levels would be left.
    """
    kind = values.dtype.kind
    if kind == "b":
        values = values.astype(np.uint8) * np.uint8(255)
    if kind not in "biuf":
        raise UnreadableImageError(f"pixels of dtype {values.dtype} are no numbers")
    if kind == "f" and not np.isfinite(values).all():
        raise UnreadableImageError("some of its pixels are NaN or infinite")
    if values.dtype == np.uint8:
        if window is None:
            return values
        if window.low < 0 or window.high > 255:
            raise UnreadableImageError(
                f"it has 8 bits a channel and the window {window} reaches beyond 0:255; it is not "
                "of the same scale as the pictures that the window is for"
            )
    if kind == "f" and window is None:
        raise UnreadableImageError(
            f"its pixels are {values.dtype} from {values.min():g} to {values.max():g}, which have "
            "no known range; say what is black and what white: --window LOW:HIGH, such as 0:1"
        )
    window = window or own_range(values)
    if window is None:
        return np.zeros(values.shape, np.uint8)
    scaled = (values.astype(np.float64) - window.low) / (window.high - window.low) * 255
    levels = np.rint(np.clip(scaled, 0, 255)).astype(np.uint8)
    _check_levels(levels, values, window)
    return levels


def _check_levels(levels: NDArray[np.uint8], values: NDArray[Any], window: Window) -> None:
    """Check that many values within the window are not a few levels, and some are within it."""
    left = int(np.count_nonzero(np.bincount(levels.ravel(), minlength=256)))
    if left >= _FEW_LEVELS:
        return
    distinct = len(np.unique(np.clip(values, *window.ends)))
    if distinct > max(2 * left, _FEW_LEVELS) or (left == 1 and values.min() < values.max()):
        low, high = np.percentile(values, (1, 99))
        raise UnreadableImageError(
            f"from {window.low:g} to {window.high:g}, all its values become {left} levels of grey, "
            f"as most of them are from {low:g} to {high:g}: say so with --window LOW:HIGH"
        )


def to_rgb(
    values: NDArray[Any], window: Window | None = None, *, inverted: bool = False
) -> NDArray[np.uint8]:
    """Return pixel values as RGB levels; what is transparent is laid on white.

    Parameters
    ----------
    values : (height, width) or (height, width, 1, 3 or 4) array
        Grey, RGB or RGBA.
    window : Window, optional
    inverted : bool
        Whether the lowest value is white.

    Returns
    -------
    (height, width, 3) uint8 array

    Raises
    ------
    UnreadableImageError
        As `to_levels`, or if the array has another shape.
    """
    _check_shape(values)
    if values.ndim == 2:
        values = values[:, :, None]
    channels = values.shape[2]
    levels = to_levels(values[:, :, :3], window)
    if inverted:
        levels = 255 - levels
    if channels != 4:
        return np.ascontiguousarray(np.broadcast_to(levels, (*levels.shape[:2], 3)))
    alpha = _alpha(values[:, :, 3:], window)
    picture = Image.fromarray(np.concatenate([levels, alpha], axis=2))
    white = Image.new("RGBA", picture.size, "white")
    return np.array(Image.alpha_composite(white, picture).convert("RGB"))


def _alpha(alpha: NDArray[Any], window: Window | None) -> NDArray[np.uint8]:
    """Return how opaque pixels are: unsigned in the range of their type, floats in the window."""
    if alpha.dtype.kind == "u":
        return (alpha // (np.iinfo(alpha.dtype).max // 255)).astype(np.uint8)
    if alpha.dtype.kind != "f":
        raise UnreadableImageError(
            f"an alpha channel of {alpha.dtype} has no known range; give RGB, or uint8 or uint16"
        )
    return to_levels(alpha, window)


def _check_shape(values: NDArray[Any]) -> None:
    shape = values.shape
    if values.size and (values.ndim == 2 or (values.ndim == 3 and shape[2] in (1, 3, 4))):
        return
    if values.size and values.ndim == 3 and shape[0] in (1, 3, 4):
        raise UnreadableImageError(
            f"an array of shape {shape} has its channels first; put them last: "
            f"image.transpose(1, 2, 0), or images.transpose(0, 2, 3, 1) of many"
        )
    raise UnreadableImageError(
        f"an array of shape {shape} is no image; expected (height, width) or "
        "(height, width, 1, 3 or 4)"
    )
