"""Pictures of DICOM files: their pixel values, and the window that the file asks for.

pydicom comes with ``fedcof[dicom]``. It decodes uncompressed and RLE files, and 8-bit JPEG and
JPEG 2000 by Pillow; other compressed ones need a decoder of their own.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedcof.data.pixels import Window, own_range
from fedcof.errors import SettingError, UnreadableImageError
from fedcof.installation import install_line

if TYPE_CHECKING:
    from pydicom import Dataset

SUFFIXES = (".dcm", ".dicom", ".ima")
_MAGIC_AT = 128
_DECODERS = "pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg"


class DicomPixels(NamedTuple):
    """What a DICOM file shows.

    Attributes
    ----------
    values : (height, width) or (height, width, 3) array
        Of a grey picture in the file's unit, such as Hounsfield units.
    window : Window or None
        What is black and what is white.
    inverted : bool
        Whether the lowest value is white (MONOCHROME1).
    """

    values: NDArray[Any]
    window: Window | None
    inverted: bool


def is_dicom(head: bytes) -> bool:
    """Return whether a file that begins with these bytes, at least 132, is DICOM."""
    return head[_MAGIC_AT : _MAGIC_AT + 4] == b"DICM"


def require_pydicom(what: str) -> None:
    """Check that pydicom is installed.

    Raises
    ------
    ModuleNotFoundError
        If it is not: how to get it.
    """
    try:
        import pydicom  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{what} read by pydicom, which is not installed; run: {install_line('dicom')}"
        ) from error


def read_dicom(source: str | os.PathLike[str] | bytes, window: Window | None = None) -> DicomPixels:
    """Read the picture of a DICOM file.

    Parameters
    ----------
    source : path or bytes
    window : Window, optional
        In the file's unit. Default: the first window of the file, else the range of its values.

    Raises
    ------
    ModuleNotFoundError
        If pydicom is not installed.
    UnreadableImageError
        If there is no picture, there are several, or there is no decoder for it.
    """
    require_pydicom("DICOM files are")
    from pydicom import dcmread
    from pydicom.pixels.processing import apply_color_lut
    from pydicom.pixels.utils import pixel_array

    # By force, as one that is known by its suffix may lack the preamble.
    dataset = dcmread(io.BytesIO(source) if isinstance(source, bytes) else source, force=True)
    _check(dataset)
    stored = pixel_array(dataset)
    kind = str(dataset.PhotometricInterpretation)
    if kind == "PALETTE COLOR":
        colours = apply_color_lut(stored, dataset)
        return DicomPixels(colours, window or _whole(colours), inverted=False)
    if stored.ndim == 3:
        return DicomPixels(stored, window or _whole(stored), inverted=False)
    values, window = _grey(stored, dataset, window)
    return DicomPixels(values, window, inverted=kind == "MONOCHROME1")


def _check(dataset: Dataset) -> None:
    """Check that a file has one picture, which can be decoded here."""
    if "PixelData" not in dataset:
        raise UnreadableImageError("a DICOM file without pixels")
    frames = int(dataset.get("NumberOfFrames") or 1)
    if frames > 1:
        raise UnreadableImageError(
            f"a DICOM file of {frames} frames; save those that count as files of their own"
        )
    size = int(dataset.Rows) * int(dataset.Columns)
    if Image.MAX_IMAGE_PIXELS is not None and size > 2 * Image.MAX_IMAGE_PIXELS:
        raise UnreadableImageError(f"a DICOM file of {size:,} pixels, more than may be meant")
    from pydicom.pixels.decoders.base import get_decoder
    from pydicom.uid import ImplicitVRLittleEndian

    syntax = dataset.file_meta.setdefault("TransferSyntaxUID", ImplicitVRLittleEndian).value
    if not syntax.is_compressed or syntax.is_deflated:
        return
    try:
        decoder = get_decoder(syntax)
    except NotImplementedError:
        raise UnreadableImageError(f"a DICOM file in {syntax.name}, no way of pictures") from None
    if not decoder.is_available:
        raise UnreadableImageError(f"a DICOM file in {syntax.name}, which needs: {_DECODERS}")


def _grey(
    stored: NDArray[Any], dataset: Dataset, window: Window | None
) -> tuple[NDArray[Any], Window | None]:
    """Return the values of a grey picture in the file's unit, and what is black and white."""
    from pydicom.pixels.processing import apply_rescale, apply_voi

    values = apply_rescale(stored, dataset)
    if window is not None:
        return values, window
    if dataset.get("VOILUTSequence"):
        bits = int(dataset.VOILUTSequence[0].LUTDescriptor[2])
        return apply_voi(values, dataset), Window(0, 2**bits - 1)
    if dataset.get("WindowCenter") is not None and dataset.get("WindowWidth") is not None:
        return _in_window(values.astype(np.float64), dataset)
    if stored.dtype == np.uint8 and np.array_equal(stored, values):
        return stored, None
    padding = dataset.get("PixelPaddingValue")
    shown = values if padding is None else values[stored != padding]
    return values.astype(np.float64), own_range(shown if shown.size else values) or Window(0, 1)


def _in_window(values: NDArray[Any], dataset: Dataset) -> tuple[NDArray[Any], Window]:
    """Return values and the file's first window, as PS3.3 C.11.2.1.2 has the three functions."""
    center, width = (_first(dataset[name].value) for name in ("WindowCenter", "WindowWidth"))
    try:
        match dataset.get("VOILUTFunction") or "LINEAR":
            case "SIGMOID":
                return 1 / (1 + np.exp(-4 * (values - center) / width)), Window(0, 1)
            case "LINEAR_EXACT":
                return values, Window(center - width / 2, center + width / 2)
            case _:
                return values, Window(center - width / 2, center + width / 2 - 1)
    except (SettingError, ZeroDivisionError):
        raise UnreadableImageError(
            f"its own window has the centre {center:g} and the width {width:g}, which is no range; "
            "give another: --window LOW:HIGH"
        ) from None


def _first(value: Any) -> float:
    return float(value if isinstance(value, str | float | int) else next(iter(value)))


def _whole(colours: NDArray[Any]) -> Window | None:
    """Return the range of the type of colours: it is what they are defined in."""
    return None if colours.dtype == np.uint8 else Window(0, float(np.iinfo(colours.dtype).max))
