import sys

import numpy as np
import pytest

pytest.importorskip("pydicom")

from pictures import dicom, grey, png
from pydicom.dataset import Dataset
from pydicom.uid import JPEGLosslessSV1, RLELossless

from fedcof.data import Window, Windowed, extract_features, image_folder, read_image
from fedcof.data.images import in_memory
from fedcof.errors import UnreadableImageError

STORED = np.arange(4096, dtype=np.uint16).reshape(64, 64)


def levels_in(values, low, high):
    levels = np.rint((np.clip(values, low, high) - low) / (high - low) * 255)
    return np.repeat(levels[:, :, None], 3, axis=2)


def test_a_file_without_a_window_is_the_same_picture_as_in_any_other_format():
    np.testing.assert_array_equal(read_image(dicom(STORED)), read_image(png(STORED)))


@pytest.mark.parametrize(
    ("known", "low", "high"),
    [
        ({"WindowCenter": 2048, "WindowWidth": 1000}, 1548, 2547),
        ({"WindowCenter": [2048, 100], "WindowWidth": [1000, 10]}, 1548, 2547),
        (
            {"WindowCenter": 2048, "WindowWidth": 1000, "VOILUTFunction": "LINEAR_EXACT"},
            1548,
            2548,
        ),
    ],
    ids=["linear", "the-first-of-two", "exact"],
)
def test_a_file_is_shown_in_its_own_window(known, low, high):
    np.testing.assert_array_equal(read_image(dicom(STORED, **known)), levels_in(STORED, low, high))


def test_a_sigmoid_window_is_that_of_the_standard():
    content = dicom(STORED, WindowCenter=2048, WindowWidth=1000, VOILUTFunction="SIGMOID")
    expected = levels_in(1 / (1 + np.exp(-4 * (STORED - 2048.0) / 1000)), 0, 1)
    np.testing.assert_array_equal(read_image(content), expected)


def test_a_table_of_levels_is_applied():
    table = Dataset()
    table.add_new("LUTDescriptor", "US", [4096, 0, 16])
    table.add_new("LUTData", "US", list(range(65535, -1, -16)))
    levels = read_image(dicom(STORED, VOILUTSequence=[table]))
    np.testing.assert_array_equal(levels, levels_in(65535.0 - 16 * STORED, 0, 65535))


HOUNSFIELD = {"RescaleSlope": 2, "RescaleIntercept": -1000}


def test_windows_are_in_the_unit_of_the_rescaled_values():
    hounsfield = STORED * 2.0 - 1000
    for content in (
        dicom(STORED, **HOUNSFIELD, WindowCenter=40, WindowWidth=400),
        dicom(STORED.astype(np.int16), **HOUNSFIELD, WindowCenter=40, WindowWidth=400),
    ):
        np.testing.assert_array_equal(read_image(content), levels_in(hounsfield, -160, 239))


def test_a_window_that_is_given_takes_the_place_of_the_files_own():
    content = dicom(STORED, **HOUNSFIELD, WindowCenter=40, WindowWidth=400)
    levels = read_image(Windowed(content, Window(-1000, 3000)))
    np.testing.assert_array_equal(levels, levels_in(STORED * 2.0 - 1000, -1000, 3000))


def test_the_lowest_value_of_monochrome1_is_white():
    content = dicom(STORED, PhotometricInterpretation="MONOCHROME1")
    np.testing.assert_array_equal(read_image(content), 255 - read_image(png(STORED)))


def test_padding_is_not_part_of_the_range():
    padded = STORED.astype(np.int16)
    padded[0] = -32768
    levels = read_image(dicom(padded, PixelPaddingValue=-32768))
    np.testing.assert_array_equal(levels, levels_in(padded.astype(float), 64, 4095))


def test_8_bits_and_colours_stay_as_they_are():
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    np.testing.assert_array_equal(read_image(dicom(pixels))[:, :, 0], pixels)
    colours = np.dstack([pixels, pixels.T, pixels])
    np.testing.assert_array_equal(read_image(dicom(colours)), colours)


def test_the_full_window_of_8_bits_leaves_them_as_they_are():
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    levels = read_image(dicom(pixels, WindowCenter=128, WindowWidth=256))
    np.testing.assert_array_equal(levels[:, :, 0], pixels)


def test_run_length_coded_files_are_read():
    from pydicom import dcmread
    from pydicom.filebase import DicomBytesIO

    dataset = dcmread(DicomBytesIO(dicom(STORED)))
    dataset.compress(RLELossless)
    buffer = DicomBytesIO()
    dataset.save_as(buffer)
    np.testing.assert_array_equal(read_image(buffer.getvalue()), read_image(STORED))


def test_a_compression_without_its_decoder_says_what_to_install():
    content = dicom(STORED, TransferSyntaxUID=JPEGLosslessSV1, PixelData=encapsulated(b"x" * 8))
    with pytest.raises(UnreadableImageError, match=r"JPEG Lossless.*pip install pylibjpeg"):
        read_image(content)


def encapsulated(frame):
    from pydicom.encaps import encapsulate

    return encapsulate([frame])


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"NumberOfFrames": 40}, "40 frames"),
        ({"PixelData": None}, "without pixels"),
        ({"WindowCenter": 40, "WindowWidth": 0}, r"width 0.*--window"),
        ({"PixelData": b"12"}, "ValueError"),
    ],
    ids=["frames", "no-pixels", "no-window", "truncated"],
)
def test_a_file_without_one_picture_says_why(known, message):
    with pytest.raises(UnreadableImageError, match=message):
        read_image(dicom(STORED, **known))


def test_a_file_is_known_by_its_first_bytes_or_its_suffix(tmp_path):
    (tmp_path / "IM0001").write_bytes(dicom(STORED))
    (tmp_path / "without-preamble.DCM").write_bytes(dicom(STORED)[132:])
    expected = read_image(STORED)
    for path in tmp_path.iterdir():
        np.testing.assert_array_equal(read_image(path), expected)
        np.testing.assert_array_equal(read_image(in_memory(path)), expected)


def test_a_folder_takes_them_with_and_without_suffix(tmp_path):
    for name in ("cat/IM0001", "cat/b.dcm", "dog/1.2.840"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(dicom(STORED, InstitutionName=name))
    (tmp_path / "dog" / "DICOMDIR").write_bytes(dicom(STORED))
    images = image_folder(tmp_path)
    assert len(images) == 3
    assert images.left_out.count == 1


@pytest.fixture
def without_pydicom(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "pydicom"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydicom", None)


def test_without_pydicom_they_are_named_with_the_line_that_installs_it(tmp_path, request):
    for name in ("cat/1.dcm", "cat/2.dcm", "cat/3"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(dicom(STORED))
    request.getfixturevalue("without_pydicom")
    with pytest.raises(ModuleNotFoundError, match=r"1\.dcm and 2 more .*pip install .*dicom"):
        image_folder(tmp_path)


def test_without_pydicom_no_feature_is_kept_of_them(tmp_path, backbone, request):
    images = [grey(1), dicom(STORED)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pydicom", None)
        with pytest.raises(ModuleNotFoundError, match=r"pip install .*dicom"):
            extract_features(images, backbone, cache_dir=tmp_path)
    assert extract_features(images, backbone, cache_dir=tmp_path).kept.tolist() == [0, 1]
