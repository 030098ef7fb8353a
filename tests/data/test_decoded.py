"""Pixels that are decoded once: what is kept, what is taken, and what stands in the way."""

import errno
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from pictures import encode, png
from PIL import Image

from fedcof.backbones import Preprocessing
from fedcof.data import decoded, extract_features, read_image
from fedcof.data.decoded import DecodedImages, Decoder
from fedcof.data.images import read_picture
from fedcof.errors import DiskUseWarning, UnreadableImageError

PREPROCESSING = Preprocessing(size=24)


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    monkeypatch.setattr(decoded, "SHARD_SIZE", 4)


@pytest.fixture
def files(tmp_path):
    """Pictures of many kinds and sizes, some small."""
    rng = np.random.default_rng(0)

    def picture(height, width):
        return Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8))

    rotated = Image.Exif()
    rotated[0x0112] = 6
    folder = tmp_path / "pictures"
    folder.mkdir()
    picture(8, 8).save(folder / "small.png")
    picture(50, 30).save(folder / "rotated.jpg", exif=rotated)
    picture(30, 30).convert("CMYK").save(folder / "print.jpg")
    Image.fromarray(rng.integers(0, 60000, (40, 40)).astype(np.uint16)).save(folder / "deep.png")
    picture(5, 7).convert("L").save(folder / "grey.png")
    picture(8, 8).save(folder / "moving.gif", save_all=True, append_images=[picture(8, 8)])
    return sorted(folder.iterdir())


def expected(sources):
    return np.stack([PREPROCESSING.resize(read_image(source)) for source in sources])


def prepared(batch):
    return np.stack([PREPROCESSING.resize(image) for image in batch])


def kept_files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def count_reads(monkeypatch):
    read = []

    def reading(source):
        read.append(source)
        return read_picture(source)

    monkeypatch.setattr(decoded, "read_picture", reading)
    return read


RNG = np.random.default_rng(0)
COLOURS = Image.fromarray(RNG.integers(0, 256, (40, 30, 3), np.uint8))
KINDS = {
    "one pixel": encode(COLOURS.crop((0, 0, 1, 1))),
    "one row": encode(COLOURS.crop((0, 0, 30, 1))),
    "progressive": encode(COLOURS, "JPEG", progressive=True),
    "transparent palette": encode(COLOURS.convert("P"), transparency=bytes(range(256))),
    "grey with alpha": encode(COLOURS.convert("LA")),
    "black and white": encode(COLOURS.convert("1")),
    "16 bits a channel": png(RNG.integers(0, 65536, (40, 30, 3)).astype(np.uint16)),
    "pages": encode(COLOURS, "TIFF", save_all=True, append_images=[COLOURS.rotate(90)]),
}


def test_every_kind_of_picture_is_kept_as_it_is_read(tmp_path):
    for name, content in KINDS.items():
        images = DecodedImages([content], PREPROCESSING, cache_dir=tmp_path / "kept")
        np.testing.assert_array_equal(
            prepared(images[np.array([0])]), expected([content]), err_msg=name
        )


@pytest.mark.parametrize("rows", [[0], [5, 0, 3], [1, 1, 2, 4]])
def test_any_rows_are_the_pixels_of_their_pictures(files, tmp_path, rows):
    images = DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")
    found = prepared(images[np.array(rows)])
    np.testing.assert_array_equal(found, expected([files[row] for row in rows]))


def test_pictures_are_decoded_once(files, tmp_path, monkeypatch):
    first = DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")
    read = count_reads(monkeypatch)
    second = DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")
    rows = np.arange(len(files))
    np.testing.assert_array_equal(first[rows], second[rows])
    assert read == []


def test_small_pictures_of_one_size_are_kept_at_their_own(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 7, 3), np.uint8)
    paths = [tmp_path / f"{i}.png" for i in range(6)]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    kept = tmp_path / "kept"
    np.testing.assert_array_equal(
        DecodedImages(paths, PREPROCESSING, cache_dir=kept)[np.arange(6)], images
    )
    assert max(path.stat().st_size for path in kept_files(kept)) < 4 * 8 * 7 * 3 + 100
    other = Preprocessing(size=48, resampling="bicubic")
    DecodedImages(paths, other, cache_dir=kept)
    assert len(kept_files(kept)) == 2  # two shards, for both networks


def test_a_centre_that_is_cut_out_is_cut_out_once(files, tmp_path):
    cutting = Preprocessing(size=24, shorter_side=28)
    images = DecodedImages(files, cutting, cache_dir=tmp_path / "kept")
    found = images[np.arange(len(files))]
    np.testing.assert_array_equal(found, [cutting.resize(read_image(path)) for path in files])


@pytest.mark.parametrize("shape", [(5, 8, 8, 3), (5, 8, 8), (5, 8, 8, 1)])
def test_small_arrays_are_taken_as_they_lie_in_memory(shape, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    batch = DecodedImages(images, PREPROCESSING, cache_dir=tmp_path)[np.array([3, 1])]
    np.testing.assert_array_equal(batch, [read_image(images[3]), read_image(images[1])])
    assert kept_files(tmp_path) == []


def test_one_image(tmp_path):
    images = DecodedImages([np.zeros((50, 40, 3), np.uint8)], PREPROCESSING, cache_dir=tmp_path)
    assert images[np.array([0])].shape == (1, 24, 24, 3)


def test_a_damaged_picture_in_the_middle_is_named_when_it_is_taken(files, tmp_path):
    files[2].write_bytes(b"damaged")
    for _ in range(2):  # decoded, and from disk
        images = DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")
        assert list(images.faults) == [2]
        with pytest.raises(UnreadableImageError, match=rf"cannot read .*{files[2].name}: it is"):
            images[np.array([1, 2])]
        np.testing.assert_array_equal(prepared(images[np.array([1])]), expected([files[1]]))


def test_a_changed_file_of_the_same_name_is_decoded_again(files, tmp_path):
    DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")
    Image.new("RGB", (60, 60), "red").save(files[0])
    images = DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")
    np.testing.assert_array_equal(prepared(images[np.array([0])]), expected([files[0]]))


def test_a_file_that_changes_after_it_was_hashed_is_kept_under_what_it_is_now(
    files, tmp_path, monkeypatch
):
    before, hashed = files[0].read_bytes(), Decoder.hash

    def hash_and_change(decoder, shard):
        content = hashed(decoder, shard)
        Image.new("RGB", (60, 60), "red").save(files[0])
        return content

    monkeypatch.setattr(Decoder, "hash", hash_and_change)
    changed = DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")
    np.testing.assert_array_equal(prepared(changed[np.array([0])]), expected([files[0]]))
    monkeypatch.setattr(Decoder, "hash", hashed)
    files[0].write_bytes(before)
    images = DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")
    np.testing.assert_array_equal(prepared(images[np.array([0])]), expected([files[0]]))


@pytest.mark.parametrize("damage", [lambda data: data[:-7], lambda data: data[:-40] + bytes(40)])
def test_a_damaged_file_of_the_cache_is_made_again(files, tmp_path, damage):
    DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")
    path = kept_files(tmp_path / "kept")[0]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(RuntimeWarning, match="is damaged"):
        images = DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")
    rows = np.arange(len(files))
    np.testing.assert_array_equal(prepared(images[rows]), expected(files))


def test_a_full_disk_is_said_once_and_the_work_goes_on(files, tmp_path, monkeypatch, recwarn):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("fedcof.files.write_atomically", full)
    images = DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")
    np.testing.assert_array_equal(prepared(images[np.arange(6)]), expected(files))
    [said] = [str(warning.message) for warning in recwarn]
    assert "No space left on device" in said


def test_pixels_for_which_there_is_no_space_are_not_kept(files, tmp_path, monkeypatch):
    monkeypatch.setattr(decoded, "_free", lambda folder: 1000)
    with pytest.warns(DiskUseWarning, match="the pixels of 6 images take .*not kept"):
        images = DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")
    assert kept_files(tmp_path) == files
    np.testing.assert_array_equal(prepared(images[np.arange(6)]), expected(files))


def test_a_cache_folder_that_may_not_be_entered_is_said_and_the_work_goes_on(
    files, tmp_path, monkeypatch
):
    stat = os.stat

    def denied(path, *args, **options):
        if str(path).startswith(str(tmp_path / "kept")):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", denied)
    (tmp_path / "kept").write_text("not a folder either")
    with pytest.warns(RuntimeWarning, match="cannot write the cache file"):
        images = DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept" / "pixels")
    np.testing.assert_array_equal(prepared(images[np.arange(6)]), expected(files))


def test_much_disk_is_told_before_it_is_taken(files, tmp_path, monkeypatch):
    monkeypatch.setattr(decoded, "_TOLD_FROM", 6 * 24 * 24 * 3)
    with pytest.warns(DiskUseWarning, match="6 images take .* in .*FEDCOF_CACHE"):
        DecodedImages(files, PREPROCESSING, cache_dir=tmp_path / "kept")


def take_all(arguments):
    files, folder = arguments
    return DecodedImages(files, PREPROCESSING, cache_dir=folder)[np.arange(len(files))]


@pytest.mark.slow
def test_two_processes_make_the_same_files(files, tmp_path):
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        first, second = pool.map(take_all, [(files, tmp_path / "kept")] * 2)
    np.testing.assert_array_equal(first, second)
    assert not [path for path in kept_files(tmp_path / "kept") if path.name.startswith(".")]


KILLED = """
import os, signal, sys
from pathlib import Path
from fedcof.backbones import Preprocessing
from fedcof.data import decoded

decoded.SHARD_SIZE = 4
def kill(steps):
    os.kill(os.getpid(), signal.SIGKILL)
files = sorted(Path(sys.argv[1]).iterdir())
decoded.DecodedImages(files, Preprocessing(size=24), cache_dir=Path(sys.argv[2]), advance=kill)
"""


@pytest.mark.slow
def test_a_killed_run_leaves_whole_files_and_the_next_goes_on(files, tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    subprocess.run([sys.executable, "-c", KILLED, files[0].parent, kept], check=False)
    assert len(kept_files(kept)) == 1
    read = count_reads(monkeypatch)
    images = DecodedImages(files, PREPROCESSING, cache_dir=kept)
    assert len(read) == 2
    np.testing.assert_array_equal(prepared(images[np.arange(6)]), expected(files))


def test_features_of_two_networks_decode_once(files, tmp_path, monkeypatch, make_backbone):
    first = make_backbone(size=24)
    second = make_backbone(size=24, mean=(1.0, 1.0, 1.0))
    one = extract_features(files, first, cache_dir=tmp_path / "kept")
    read = count_reads(monkeypatch)
    other = extract_features(files, second, cache_dir=tmp_path / "kept")
    assert read == []
    np.testing.assert_allclose(one.features - 1, other.features, atol=1e-4)
