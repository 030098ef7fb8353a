import errno
import threading

import numpy as np
import pytest
from PIL import Image

from fedcof.backbones import Backbone, Preprocessing
from fedcof.data import cache, decoded, extract_features, stream_features
from fedcof.errors import BackboneError, UnreadableImageError, UnreadableImageWarning


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    monkeypatch.setattr(decoded, "SHARD_SIZE", 4)


def colours(values):
    return [np.full((2, 2), value, np.uint8) for value in values]


def test_features_are_those_of_the_images_in_their_order(backbone, tmp_path):
    result = extract_features(colours(range(10)), backbone, cache_dir=tmp_path)
    assert result.features.dtype == np.float32
    np.testing.assert_array_equal(result.features, np.repeat(np.arange(10), 3).reshape(10, 3))
    assert result.kept.tolist() == list(range(10))
    assert result.skipped == ()


def test_a_second_run_reads_the_same_bytes_from_the_cache(backbone, tmp_path):
    first = extract_features(colours(range(10)), backbone, cache_dir=tmp_path)
    backbone.computed = 0
    second = extract_features(colours(range(10)), backbone, cache_dir=tmp_path)
    assert backbone.computed == 0
    assert first.features.tobytes() == second.features.tobytes()


def test_only_the_shard_of_a_changed_image_is_made_again(backbone, tmp_path):
    extract_features(colours(range(10)), backbone, cache_dir=tmp_path)
    backbone.computed = 0
    changed = extract_features(colours([0, 1, 2, 99, *range(4, 10)]), backbone, cache_dir=tmp_path)
    assert backbone.computed == 4
    assert changed.features[3, 0] == 99


def test_other_preprocessing_does_not_share_features(backbone, make_backbone, tmp_path):
    extract_features(colours([5]), backbone, cache_dir=tmp_path)
    other = make_backbone(mean=(1.0, 1.0, 1.0))
    result = extract_features(colours([5]), other, cache_dir=tmp_path)
    np.testing.assert_array_equal(result.features, [[4, 4, 4]])


def test_an_interrupted_run_goes_on_after_its_last_whole_shard(backbone, tmp_path):
    def interrupt(steps):
        if backbone.computed > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract_features(colours(range(12)), backbone, cache_dir=tmp_path, advance=interrupt)
    backbone.computed = 0
    result = extract_features(colours(range(12)), backbone, cache_dir=tmp_path)
    assert backbone.computed == 4
    np.testing.assert_array_equal(result.features[:, 0], np.arange(12))


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-7], lambda data: data[:100] + b"\xff" + data[101:], lambda data: b""],
    ids=["truncated", "altered", "emptied"],
)
def test_a_damaged_shard_is_named_and_made_again(backbone, tmp_path, damage):
    first = extract_features(colours(range(10)), backbone, cache_dir=tmp_path)
    path = sorted(tmp_path.rglob("*.npy"))[0]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(RuntimeWarning, match=path.name):
        second = extract_features(colours(range(10)), backbone, cache_dir=tmp_path)
    np.testing.assert_array_equal(first.features, second.features)
    extract_features(colours(range(10)), backbone, cache_dir=tmp_path)  # whole again: no warning


def test_the_cache_lies_in_the_folder_that_the_environment_names(backbone, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path))
    extract_features(colours([1]), backbone)
    [shard] = tmp_path.rglob("*.npy")
    assert shard.parent == tmp_path / "features" / backbone.fingerprint


@pytest.fixture
def folder_with_a_broken_image(tmp_path):
    paths = [tmp_path / f"{i}.png" for i in range(6)]
    for i, path in enumerate(paths):
        Image.new("L", (2, 2), i).save(path)
    paths[2].write_bytes(b"broken")
    return paths


@pytest.mark.parametrize("run", ["first", "from the cache"])
def test_an_unreadable_image_is_skipped_named_and_counted(
    backbone, tmp_path, folder_with_a_broken_image, run
):
    paths = folder_with_a_broken_image
    if run == "from the cache":
        with pytest.warns(UnreadableImageWarning):
            extract_features(paths, backbone, cache_dir=tmp_path)
        backbone.computed = 0
    with pytest.warns(UnreadableImageWarning, match=r"(?s)skipped 1 of 6 .*2\.png: it is damaged"):
        result = extract_features(paths, backbone, cache_dir=tmp_path)
    assert result.kept.tolist() == [0, 1, 3, 4, 5]
    assert result.features[:, 0].tolist() == [0, 1, 3, 4, 5]
    assert len(result.skipped) == 1
    assert backbone.computed == (0 if run == "from the cache" else 6)


def test_strict_stops_at_an_unreadable_image(backbone, tmp_path, folder_with_a_broken_image):
    with pytest.raises(UnreadableImageError, match=r"cannot read .*2\.png"):
        extract_features(folder_with_a_broken_image, backbone, cache_dir=tmp_path, strict=True)


def test_a_missing_image_is_read_once_it_is_there(backbone, tmp_path):
    paths = [tmp_path / "here.png", tmp_path / "late.png"]
    Image.new("L", (2, 2), 1).save(paths[0])
    with pytest.warns(UnreadableImageWarning, match=r"late\.png"):
        extract_features(paths, backbone, cache_dir=tmp_path)
    Image.new("L", (2, 2), 2).save(paths[1])
    assert extract_features(paths, backbone, cache_dir=tmp_path).features[:, 0].tolist() == [1, 2]


def test_an_image_without_a_path_is_named_by_its_number(backbone, tmp_path):
    images = [*colours(range(5)), b"broken"]
    with pytest.warns(UnreadableImageWarning, match="image 5: "):
        extract_features(images, backbone, cache_dir=tmp_path)


def test_no_readable_image_at_all_is_an_error(backbone, tmp_path):
    with pytest.raises(UnreadableImageError, match="none of the 2 images"):
        extract_features([b"x", b"y"], backbone, cache_dir=tmp_path)


def test_no_images_give_no_features(backbone, tmp_path):
    assert extract_features([], backbone, cache_dir=tmp_path).features.shape == (0, 3)


def test_a_backbone_that_gives_infinity_is_an_error_and_is_not_cached(tmp_path):
    import onnx.parser

    model = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        log (float[n, 3, 4, 4] image) => (float[n, 3, 4, 4] maps) { maps = Log(image) }
        """
    )
    plain = Preprocessing(size=4, mean=(0, 0, 0), scale=(1, 1, 1))
    backbone = Backbone(model.SerializeToString(), plain, name="log")
    with pytest.raises(BackboneError, match="log gives NaN or infinity for image 1"):
        extract_features(colours([1, 0]), backbone, cache_dir=tmp_path)
    assert not list(tmp_path.rglob("*.npy"))


def test_progress_counts_every_image_once_computed_or_cached(backbone, tmp_path):
    for _ in range(2):
        steps = []
        extract_features(colours(range(10)), backbone, cache_dir=tmp_path, advance=steps.append)
        assert sum(steps) == 10


def test_images_are_taken_from_an_endless_stream_shard_by_shard(backbone, tmp_path):
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield np.full((2, 2), taken % 256, np.uint8)

    class EnoughError(Exception):
        pass

    def stop(steps):
        raise EnoughError

    with pytest.raises(EnoughError):
        extract_features(endless(), backbone, cache_dir=tmp_path, advance=stop)
    assert taken <= 12  # one shard in use, one waits, one is read


def test_a_stream_has_one_shard_in_memory_and_names_what_it_cannot_read(backbone, tmp_path):
    images = [*colours([1, 2, 3, 4, 5]), b"no image", *colours([7])]
    first, second = stream_features(images, backbone, cache_dir=tmp_path)
    assert (first.kept.tolist(), first.skipped) == ([0, 1, 2, 3], ())
    assert second.kept.tolist() == [4, 6]
    [fault] = second.skipped
    assert fault.startswith("image 5: it is damaged")
    np.testing.assert_array_equal(second.features[:, 0], [5, 7])


class Engine:
    """A network that begins a batch before it gives the features of the one before."""

    dim, batch_size = 3, 2

    def __init__(self):
        self.begun, self.streams = 0, 0

    def stream(self, batches):
        self.streams += 1
        before = None
        for batch in batches:
            self.begun += len(batch)
            if before is not None:
                yield before
            before = batch.reshape(len(batch), -1, 3).mean(axis=1, dtype=np.float32)
        if before is not None:
            yield before


def test_the_network_goes_on_from_shard_to_shard_without_a_pause(tmp_path):
    engine = Engine()
    backbone = Backbone(engine, Preprocessing(size=12), fingerprint="f")
    steps = []

    def advance(count):
        steps.append((count, engine.begun))

    result = extract_features(colours(range(10)), backbone, cache_dir=tmp_path, advance=advance)
    np.testing.assert_array_equal(result.features[:, 0], np.arange(10))
    assert engine.streams == 1
    # Of the shards of four images: when two are done, the next two are begun already.
    assert steps == [(2, 4), (2, 6), (2, 8), (2, 10), (2, 10)]


def test_shards_in_the_cache_keep_their_place_between_others(tmp_path):
    backbone = Backbone(Engine(), Preprocessing(size=12), fingerprint="f")
    extract_features(colours(range(4, 8)), backbone, cache_dir=tmp_path)
    result = extract_features(colours(range(14)), backbone, cache_dir=tmp_path)
    np.testing.assert_array_equal(result.features[:, 0], np.arange(14))


def test_an_extraction_that_is_left_early_ends_its_threads(tmp_path):
    backbone = Backbone(Engine(), Preprocessing(size=12), fingerprint="f")
    parts = stream_features(colours(range(40)), backbone, cache_dir=tmp_path)
    next(parts)
    parts.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("fedcof-")]


def test_a_full_disk_is_said_once_where_shards_are_read_at_a_time(tmp_path, monkeypatch, recwarn):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("fedcof.files.write_atomically", full)
    monkeypatch.setattr(cache.joblib, "cpu_count", lambda: 4)
    backbone = Backbone(Engine(), Preprocessing(size=12), fingerprint="f")
    images = [np.full((20, 20, 3), value, np.uint8) for value in range(24)]
    result = extract_features(images, backbone, cache_dir=tmp_path)
    np.testing.assert_array_equal(result.features[:, 0], np.arange(24))
    said = [str(warning.message) for warning in recwarn]
    assert len([text for text in said if "pixels" in text]) == 1
