"""Images decoded once: their pixels in 8 bits, as they travel to a network, kept on disk.

Images are taken in shards. All of a shard have one size: their own where it is small and the same
for all, else that of the network's input, for which they are resized here. A shard's file is named
after the content of its images, lies beside the cache of features and is mapped into memory, so a
data set may be larger than that. It is written whole or not at all, so that processes may make the
same shard at once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray

from fedcof.backbones.preprocessing import ImageArray, Preprocessing, size_of
from fedcof.data.images import (
    ImageSource,
    content_hash,
    image_fault,
    image_name,
    in_memory,
    read_picture,
)
from fedcof.errors import DiskUseWarning, UnreadableImageError
from fedcof.files import cache_folder, fetch_mapped, store

SHARD_SIZE = 512
_CHUNK = 16
_TOLD_FROM = 10**9
"""Bytes of disk that are used without a word."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Pixels:
    """The images of a shard.

    Parameters
    ----------
    images : (n, height, width, 3) uint8 array
        As `Preprocessing.as_batch` makes them; one that cannot be read is black.
    faults : dict of int to str
        The rows of those that cannot be read, and why.
    content : str
        The hash of the content of the images, as `Decoder.hash` has it.
    """

    images: ImageArray
    faults: dict[int, str]
    content: str


class Decoder:
    """Decodes shards of images, or takes them from disk; several threads may ask for some.

    Parameters
    ----------
    preprocessing : Preprocessing
    cache_dir : path, optional
        Where pixels are kept. Default: ``pixels`` in the user's cache folder.
    total : int, optional
        How many images there are in all, where it is known: what they take on disk is then told
        before it is taken, and nothing is kept where there is not as much.
    """

    def __init__(
        self,
        preprocessing: Preprocessing,
        cache_dir: Path | None = None,
        *,
        total: int | None = None,
    ) -> None:
        self._preprocessing = preprocessing
        self._folder = cache_dir or cache_folder() / "pixels"
        self._keeps = True
        self._untold = total
        self._keeping = Lock()
        self._pool: Executor = ThreadPoolExecutor(
            joblib.cpu_count(), thread_name_prefix="fedcof-decode"
        )

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def hash(self, shard: Sequence[ImageSource]) -> str:
        """Return the hash of the content of a shard's images."""
        return _joined(self._map(content_hash, shard))

    def kept(self, shard: Sequence[ImageSource], content: str) -> Pixels | None:
        """Return the pixels of a shard that lie on disk; None if they do not."""
        for path in self._paths(content):
            data = fetch_mapped(path)
            if data is None:
                continue
            pixels = _unpacked(shard, data, content)
            height, width = pixels.images.shape[1:3]
            fits = path.parent.name != _NATIVE or self._preprocessing.is_small(height, width)
            if fits and all(pixels.faults.values()):  # else one of them can be read by now
                return pixels
        return None

    def decoded(self, shard: Sequence[ImageSource]) -> Pixels:
        """Decode a shard, and keep its pixels on disk; arrays that stay as they are, are not.

        The hash of its content is that of the bytes that were decoded: a file may have changed
        since it was hashed.
        """
        size = self._preprocessing.size
        # Each row is written as soon as it is read: its pages are touched once.
        images = np.empty((len(shard), size, size, 3), np.uint8)
        read = self._map(lambda row: self._read(shard[row], images[row]), range(len(shard)))
        content = _joined([digest for digest, _ in read])
        faults = {row: found for row, (_, found) in enumerate(read) if isinstance(found, str)}
        small = {row: found for row, (_, found) in enumerate(read) if isinstance(found, np.ndarray)}
        shapes = {image.shape for image in small.values()}
        native = len(shapes) == 1 and len(small) + len(faults) == len(shard)
        if native:
            images = np.empty((len(shard), *shapes.pop()), np.uint8)
        for row, image in small.items():
            images[row] = image if native else self._preprocessing.resize(image)
        images[list(faults)] = 0
        pixels = Pixels(images, faults, content)
        if not (native and all(isinstance(source, np.ndarray) for source in shard)):
            self._keep(pixels, self._paths(content)[0 if native else 1])
        return pixels

    def _read(self, source: ImageSource, out: ImageArray) -> tuple[bytes, ImageArray | str | None]:
        """Return the hash of an image, and its pixels if it is small, or its fault.

        The pixels of one that is not small are written to ``out``, at the network's size.
        """
        source = in_memory(source)
        digest = content_hash(source)
        try:
            image = read_picture(source)
        except UnreadableImageError as error:
            return digest, str(error)
        if self._preprocessing.is_small(*size_of(image)):
            return digest, np.asarray(image)
        out[...] = self._preprocessing.resize(image)
        return digest, None

    def _paths(self, content: str) -> tuple[Path, Path]:
        """Return where the pixels of a shard lie at their own size, and at the network's."""
        known = self._preprocessing
        cut = "" if known.shorter_side is None else f"-of-{known.shorter_side}"
        prepared = f"{known.size}-{known.resampling}{cut}"
        return self._folder / _NATIVE / content, self._folder / prepared / content

    def _keep(self, pixels: Pixels, path: Path) -> None:
        with self._keeping:  # a disk that is full is said once
            self._tell(pixels.images.nbytes / len(pixels.images))
            if self._keeps:
                self._keeps = store(path, *_packed(pixels))

    def _tell(self, bytes_per_image: float) -> None:
        """Say once what all images will take on disk; keep none where there is not as much."""
        total, self._untold = self._untold, None
        if total is None:
            return
        needed, free = int(total * bytes_per_image), _free(self._folder)
        about = f"the pixels of {total:,} images take {needed / 1e9:.3g} GB in {self._folder}"
        if needed > free:
            self._keeps = False
            warnings.warn(
                f"{about}, which has {free / 1e9:.3g} GB free: they are not kept, and are decoded "
                "whenever they are needed; the environment variable FEDCOF_CACHE names another "
                "folder",
                DiskUseWarning,
                stacklevel=2,
            )
        elif needed >= _TOLD_FROM:
            warnings.warn(
                f"{about}, so that they are decoded once; it may be deleted at any time, and the "
                "environment variable FEDCOF_CACHE names another folder",
                DiskUseWarning,
                stacklevel=2,
            )

    def _map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Map in threads, some items at a time: a task costs as much as a small image."""
        chunks = [items[i : i + _CHUNK] for i in range(0, len(items), _CHUNK)]
        done = self._pool.map(lambda chunk: [function(item) for item in chunk], chunks)
        return list(chain.from_iterable(done))


class DecodedImages:
    """Images that are decoded once and then taken in any order.

    Those whose pixels cannot be kept on disk are decoded whenever they are taken. Arrays that are
    small are taken as they lie in memory.

    Parameters
    ----------
    sources : sequence of n paths, encoded images (bytes) or pixel arrays
    preprocessing : Preprocessing
    cache_dir : path, optional
        Where pixels are kept. Default: ``pixels`` in the user's cache folder.
    advance : callable
        Called with the number of images done since the last call.

    Attributes
    ----------
    faults : dict of int to str
        The rows of those that cannot be read, and why.
    """

    def __init__(
        self,
        sources: Sequence[ImageSource] | NDArray[np.uint8],
        preprocessing: Preprocessing,
        *,
        cache_dir: Path | None = None,
        advance: Callable[[int], None] = lambda steps: None,
    ) -> None:
        self._sources = sources
        self._preprocessing = preprocessing
        self._shard_size = SHARD_SIZE
        self._shards: list[ImageArray | None] = []
        self.faults: dict[int, str] = {}
        if _are_small_pixels(sources, preprocessing):
            self._shard_size, self._shards = max(1, len(sources)), [np.asarray(sources)]
            advance(len(sources))
            return
        with closing(Decoder(preprocessing, cache_dir, total=len(sources))) as decoder:
            for number, shard in enumerate(shards(sources)):
                content = decoder.hash(shard)
                found = decoder.kept(shard, content)
                if found is None:
                    made = decoder.decoded(shard)
                    faults, found = made.faults, decoder.kept(shard, made.content)
                else:
                    faults = found.faults
                self._shards.append(None if found is None else found.images)
                self.faults |= {number * SHARD_SIZE + row: text for row, text in faults.items()}
                advance(len(shard))

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, rows: NDArray[np.int64]) -> ImageArray:
        """Return a batch as `Preprocessing.as_batch` makes it.

        Raises
        ------
        UnreadableImageError
            If one of the images cannot be read; it is named.
        """
        for row in self.faults.keys() & set(rows.tolist()) if self.faults else ():
            name = image_name(self._sources[row], row)
            raise UnreadableImageError(f"cannot read {name}: {self.faults[row]}")
        numbers, places = np.divmod(rows, self._shard_size)
        held = {number: self._shards[number] for number in np.unique(numbers).tolist()}
        kept = {number: images for number, images in held.items() if images is not None}
        sizes = {images.shape[1:3] for images in kept.values()}
        if len(sizes) != 1 or len(kept) < len(held):
            return self._one_by_one(rows)
        [(height, width)] = sizes
        batch = np.empty((len(rows), height, width, 3), np.uint8)
        for number, images in kept.items():
            here = numbers == number
            taken = images[places[here]]
            batch[here] = taken if taken.ndim == 4 else taken[..., None]
        return batch

    def _one_by_one(self, rows: NDArray[np.int64]) -> ImageArray:
        """Return a batch of images some of which are not kept, or not in one size with others."""
        prepared = []
        for row in rows.tolist():
            number, place = divmod(row, self._shard_size)
            images = self._shards[number]
            image = read_picture(self._sources[row]) if images is None else images[place]
            at_size = images is not None and size_of(image)[0] == self._preprocessing.size
            prepared.append(np.asarray(image) if at_size else self._preprocessing.resize(image))
        return np.stack(prepared)


def shards(images: Iterable[ImageSource]) -> Iterator[list[ImageSource]]:
    """Yield images in lists of one length; the last may be shorter."""
    iterator = iter(images)
    while shard := list(islice(iterator, SHARD_SIZE)):
        yield shard


def _joined(digests: Iterable[bytes]) -> str:
    """Return the hash of a shard from those of its images."""
    return hashlib.sha256(b"".join(digests)).hexdigest()


_NATIVE = "own-size"
_HEADER = np.dtype("<i4")


def _packed(pixels: Pixels) -> tuple[bytes | memoryview, ...]:
    """Return what a file of the cache holds: the shape, which are unreadable, the pixels."""
    unreadable = np.zeros(len(pixels.images), bool)
    unreadable[list(pixels.faults)] = True
    shape = np.array(pixels.images.shape[:3], _HEADER)
    return shape.tobytes(), unreadable.tobytes(), np.ascontiguousarray(pixels.images).data


def _unpacked(shard: Sequence[ImageSource], data: memoryview, content: str) -> Pixels:
    """Return what `_packed` made; an image that can be read by now has an empty fault."""
    shape = np.frombuffer(data, _HEADER, 3)
    count, start = int(shape[0]), shape.nbytes
    unreadable = np.frombuffer(data, bool, count, start)
    images = np.frombuffer(data, np.uint8, offset=start + count).reshape(*shape.tolist(), 3)
    rows = np.flatnonzero(unreadable).tolist()
    return Pixels(images, {row: image_fault(shard[row]) for row in rows}, content)


def _are_small_pixels(
    sources: Sequence[ImageSource] | NDArray[np.uint8], preprocessing: Preprocessing
) -> bool:
    """Return whether images are an array that may travel as it is: grey or RGB, and small."""
    return (
        isinstance(sources, np.ndarray)
        and sources.dtype == np.uint8
        and (sources.ndim == 3 or (sources.ndim == 4 and sources.shape[3] in (1, 3)))
        and preprocessing.is_small(*sources.shape[1:3])
        and sources.size > 0
    )


def _free(folder: Path) -> int:
    """Return the bytes that are free where a folder is, or will be.

    A folder that may not be entered is as one that is not there, which `Path.exists` is not.
    """
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    return shutil.disk_usage(there).free
