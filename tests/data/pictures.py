"""Pictures of many kinds as the bytes of their files, made in code."""

import io
import struct
import zlib

import numpy as np
from PIL import Image
from PIL.TiffImagePlugin import ImageFileDirectory_v2


def encode(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(values):
    """Return a 16-bit PNG; Pillow writes grey ones only."""
    height, width = values.shape[:2]
    color_type = {1: 0, 2: 4, 3: 2, 4: 6}[values.size // (height * width)]

    def chunk(name, content):
        checked = name + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, color_type, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*parts) for parts in chunks)


def tiff(values, *, order="<", photometric=None, planar=False):
    """Return an uncompressed TIFF of any type of pixel."""
    values = np.asarray(values)
    height, width = values.shape[:2]
    channels = values.size // (height * width)
    directory = ImageFileDirectory_v2(prefix=b"II" if order == "<" else b"MM")
    tags = {
        256: width,
        257: height,
        258: (8 * values.itemsize,) * channels,
        259: 1,
        262: photometric if photometric is not None else (2 if channels >= 3 else 1),
        277: channels,
        278: height,
        284: 2 if planar else 1,
        339: ({"u": 1, "i": 2, "f": 3}[values.dtype.kind],) * channels,
    }
    if channels == 4:
        tags[338] = 2
    for tag, value in tags.items():
        directory.tagtype[tag] = 3
        directory[tag] = value
    for tag in (273, 279):
        directory.tagtype[tag] = 4
    directory[279] = values.nbytes
    directory[273] = 0  # counted from the end of the directory
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    if planar:
        values = np.moveaxis(values, 2, 0)
    return head + directory.tobytes(8) + values.astype(values.dtype.newbyteorder(order)).tobytes()


def dicom(values, **known):
    """Return a DICOM file of a grey picture; `known` are elements by their keyword."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=["fedcof"])
    meta.TransferSyntaxUID = known.pop("TransferSyntaxUID", ExplicitVRLittleEndian)
    dataset = FileDataset("", {}, file_meta=meta, preamble=bytes(128))
    values = np.asarray(values)
    bits = 8 * values.itemsize
    elements = {
        "SOPClassUID": meta.MediaStorageSOPClassUID,
        "SOPInstanceUID": meta.MediaStorageSOPInstanceUID,
        "Rows": values.shape[0],
        "Columns": values.shape[1],
        "SamplesPerPixel": 3 if values.ndim == 3 else 1,
        "PhotometricInterpretation": "RGB" if values.ndim == 3 else "MONOCHROME2",
        "BitsAllocated": bits,
        "BitsStored": bits,
        "HighBit": bits - 1,
        "PixelRepresentation": int(values.dtype.kind == "i"),
        "PixelData": values.tobytes(),
    }
    if values.ndim == 3:
        elements["PlanarConfiguration"] = 0
    for keyword, value in {**elements, **known}.items():
        if value is not None:
            setattr(dataset, keyword, value)
    if "PixelData" in dataset:
        dataset["PixelData"].VR = "OB" if bits == 8 else "OW"
    buffer = io.BytesIO()
    dataset.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def grey(level):
    """Return the PNG of a picture of one level, 0 to 255."""
    return encode(Image.new("L", (4, 4), level))
