"""Whatever the bytes: a picture, or an error that says why."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import dicom, encode, png, tiff
from PIL import Image

from fedcof.data import Window, Windowed, read_image
from fedcof.data.images import content_hash
from fedcof.errors import UnreadableImageError

pytest.importorskip("pydicom")

DEEP = np.arange(256, dtype=np.uint16).reshape(16, 16) * np.uint16(16)
COLOUR = Image.fromarray(np.arange(768, dtype=np.uint8).reshape(16, 16, 3))
FILES = {
    "bmp": encode(COLOUR, "BMP"),
    "dicom": dicom(DEEP, WindowCenter=40, WindowWidth=400, RescaleSlope=2, RescaleIntercept=1),
    "gif": encode(COLOUR, "GIF"),
    "jpeg": encode(COLOUR, "JPEG"),
    "jpeg2000": encode(COLOUR, "JPEG2000"),
    "png": encode(COLOUR),
    "png16": png(np.dstack([DEEP, DEEP, DEEP])),
    "png16-alpha": png(np.dstack([DEEP, DEEP])),
    "tiff": encode(COLOUR, "TIFF", compression="tiff_lzw"),
    "tiff16": tiff(DEEP),
    "tiff16-colour": tiff(np.dstack([DEEP, DEEP, DEEP])),
    "tiff-float": tiff(DEEP.astype(np.float32)),
    "webp": encode(COLOUR, "WEBP"),
}


@pytest.mark.filterwarnings("ignore")  # of the readers, on what they make up for
@pytest.mark.parametrize("content", FILES.values(), ids=list(FILES))
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_damaged_bytes_are_a_picture_or_an_error(content, data):
    damaged = bytearray(content[: data.draw(st.integers(0, len(content)))])
    for _ in range(data.draw(st.integers(0, 4)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    window = data.draw(st.sampled_from([None, Window(0, 255), Window(-160, 4095)]))
    source = bytes(damaged) if window is None else Windowed(bytes(damaged), window)
    assert len(content_hash(source)) == 32
    try:
        pixels = read_image(source)
    except UnreadableImageError:
        return
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 3
    assert pixels.shape[2] == 3
