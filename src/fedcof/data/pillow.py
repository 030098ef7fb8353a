"""Pixel values of pictures that Pillow opens, at the depth that they are stored in.

Pillow keeps the high 8 bits of a colour picture of 16; such a picture is decoded twice, once for
each byte. It also has no image types for some pixel types of TIFF, which are put right here.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from fedcof.backbones.preprocessing import Picture
from fedcof.data.pixels import Window, to_rgb
from fedcof.errors import UnreadableImageError

ROTATION = 0x0112
"""The EXIF tag of how the camera was held."""

_OTHER_BYTE = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}
_GREY_ALPHA = "LA;16B"

# Tags of TIFF, which files leave out where they have these values.
_BITS, _PHOTOMETRIC, _PLANES, _SAMPLE_FORMAT = {258: (1,)}, {262: 1}, {284: 1}, {339: (1,)}


def read_encoded(source: str | os.PathLike[str] | bytes, window: Window | None) -> Picture:
    """Return a file, or its content, as RGB levels."""
    with _open(source) as picture:
        raw = _raw_mode(picture)
        if _is_planar(picture):
            raise UnreadableImageError(
                "16 bits a channel in separate planes, which Pillow takes for 8; save it with the "
                "channels of a pixel side by side"
            )
        if picture.mode == "RGB" and getattr(picture, "tile", None) and _is_deep_ppm(picture):
            return to_rgb(_ppm_values(picture), window)
        if picture.mode not in ("RGB", "RGBA") or ";16" not in raw:
            return read_pillow(picture, window)
        if raw == _GREY_ALPHA:
            return to_rgb(_grey_alpha(picture), window)
        with _open(source) as again:
            return to_rgb(_both_bytes(picture, again), window)


def read_pillow(picture: Image.Image, window: Window | None) -> Picture:
    """Return a picture of Pillow as RGB levels; one that has them is not copied."""
    picture.load()
    inverted = picture.mode.startswith("I;16") and _tag(picture, _PHOTOMETRIC) == 0
    dtype = _stored_dtype(picture)
    upright = _upright(picture)
    if dtype is not None:
        return to_rgb(np.asarray(upright).view(dtype), window, inverted=inverted)
    if not upright.mode.startswith(("I", "F")):
        mode = "RGBA" if upright.has_transparency_data else "RGB"
        upright = upright if upright.mode == mode else upright.convert(mode)
        if mode == "RGB" and window is None:
            return upright
    return to_rgb(np.asarray(upright), window, inverted=inverted)


def _upright(picture: Image.Image) -> Image.Image:
    """Return a picture as it was seen; one that lies as it was is not copied."""
    return ImageOps.exif_transpose(picture) if picture.getexif().get(ROTATION, 1) != 1 else picture


def _open(source: str | os.PathLike[str] | bytes) -> Image.Image:
    return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source)


def _raw_mode(picture: Image.Image) -> str:
    """Return in what form the pixels of a file lie, as Pillow calls it."""
    tiles = getattr(picture, "tile", None)
    args = tiles[0].args if tiles else ""
    return str(args[0] if isinstance(args, tuple) and args else args)


def _set_raw_mode(picture: Any, raw: str) -> None:
    picture.tile = [
        tile._replace(args=(raw, *tile.args[1:]) if isinstance(tile.args, tuple) else raw)
        for tile in picture.tile
    ]


def _both_bytes(picture: Image.Image, again: Image.Image) -> NDArray[np.uint16]:
    """Return the values of a 16-bit colour picture that was opened twice."""
    raw = _raw_mode(again)
    _set_raw_mode(again, raw[:-1] + _OTHER_BYTE[raw[-1]])
    high, low = (np.asarray(ImageOps.exif_transpose(half)) for half in (picture, again))
    values: NDArray[np.uint16] = high.astype(np.uint16) << 8 | low
    return values


def _grey_alpha(picture: Image.Image) -> NDArray[np.uint16]:
    """Return the values of a 16-bit grey picture with an alpha channel: 4 bytes a pixel."""
    _set_raw_mode(picture, "RGBA")
    pairs = np.asarray(ImageOps.exif_transpose(picture)).astype(np.uint16)
    grey, alpha = pairs[:, :, 0] << 8 | pairs[:, :, 1], pairs[:, :, 2] << 8 | pairs[:, :, 3]
    return np.stack([grey, grey, grey, alpha], axis=2)


def _is_deep_ppm(picture: Any) -> bool:
    [tile, *_] = picture.tile
    return bool(tile.codec_name == "ppm" and tile.args[-1] > 255)


def _ppm_values(picture: Any) -> NDArray[np.uint16]:
    """Return the values of a 16-bit colour PPM, which lie in the file as they are."""
    (width, height), [tile, *_] = picture.size, picture.tile
    picture.fp.seek(tile.offset)
    values = np.frombuffer(picture.fp.read(6 * width * height), ">u2")
    return values.reshape(height, width, 3).astype(np.uint16)


def _tag(picture: Image.Image, tag: dict[int, Any]) -> Any:
    [(number, default)] = tag.items()
    return getattr(picture, "tag_v2", {}).get(number, default)


def _is_planar(picture: Image.Image) -> bool:
    deep = max(_tag(picture, _BITS)) > 8 and len(_tag(picture, _BITS)) > 1
    return deep and bool(_tag(picture, _PLANES) == 2)


def _stored_dtype(picture: Image.Image) -> type[np.generic] | None:
    """Return the type of TIFF's pixels where Pillow has another of the same size."""
    if not hasattr(picture, "tag_v2"):
        return None
    signed = _tag(picture, _SAMPLE_FORMAT)[0] == 2
    if picture.mode == "L" and signed:
        return np.int8
    unsigned_32 = picture.mode == "I" and not signed and max(_tag(picture, _BITS)) == 32
    return np.uint32 if unsigned_32 else None
