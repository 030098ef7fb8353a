"""Features of images, computed once and then kept on disk.

The images are taken in shards. A shard's file is named after its content and the backbone's
fingerprint, so there is nothing to keep in step: an interrupted run goes on at the first shard
that is not there, and a changed image, or one in another window, is another shard.

While the network runs on a shard, the next ones are read and decoded in threads, and it goes on to
the next without a pause.
"""

from __future__ import annotations

import io
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, cast

import joblib
import numpy as np
from numpy.typing import NDArray

from fedcof.backbones.preprocessing import ImageArray
from fedcof.data.decoded import Decoder, shards
from fedcof.data.images import ImageSource, image_fault, image_name
from fedcof.errors import BackboneError, UnreadableImageError, UnreadableImageWarning
from fedcof.files import cache_folder, fetch, store
from fedcof.pipeline import mapped_ahead

if TYPE_CHECKING:
    from fedcof.backbones import Backbone

_NAMED_IN_WARNING = 5
_AT_ONCE = 4
"""Shards that are read at a time, each of which a thread checks and keeps on disk."""


@dataclass(frozen=True)
class ImageFeatures:
    """The features of the images that could be read.

    Attributes
    ----------
    features : (n, dim) float32 array
    kept : (n,) int array
        Which of the images they belong to: ``labels[kept]`` are their labels.
    skipped : tuple of str
        Name and fault of each image that could not be read.
    """

    features: NDArray[np.float32]
    kept: NDArray[np.int64]
    skipped: tuple[str, ...]


def extract_features(
    images: Iterable[ImageSource],
    backbone: Backbone,
    *,
    cache_dir: Path | None = None,
    strict: bool = False,
    advance: Callable[[int], None] = lambda steps: None,
) -> ImageFeatures:
    """Return the features of images, from the cache where they are in it.

    Parameters
    ----------
    images : iterable of paths, encoded images (bytes) or pixel arrays
        Taken a few shards at a time: the whole never has to fit in memory.
    backbone : Backbone
    cache_dir : path, optional
        Where features are kept. Default: ``features`` in the user's cache folder.
    strict : bool
        Whether an unreadable image stops the work. Otherwise it is skipped.
    advance : callable
        Called with the number of images done since the last call.

    Raises
    ------
    UnreadableImageError
        If an image cannot be read and ``strict`` is set, or if none can be read.
    BackboneError
        If the backbone gives NaN or infinity for an image.

    Warns
    -----
    UnreadableImageWarning
        If images were skipped: how many, and which.
    RuntimeWarning
        If a file of the cache was damaged; it is made again.
    """
    parts = stream_features(images, backbone, cache_dir=cache_dir, strict=strict, advance=advance)
    return gathered(parts, backbone.dim)


def gathered(parts: Iterable[ImageFeatures], dim: int) -> ImageFeatures:
    """Return the features of all parts as one; say which images were skipped.

    Raises
    ------
    UnreadableImageError
        If no image can be read.

    Warns
    -----
    UnreadableImageWarning
        If images were skipped.
    """
    parts = list(parts)
    features = [part.features for part in parts]
    kept = [part.kept for part in parts]
    skipped = tuple(fault for part in parts for fault in part.skipped)
    if skipped:
        _report(skipped, len(skipped) + sum(map(len, kept)))
    return ImageFeatures(
        np.concatenate([np.empty((0, dim), np.float32), *features]),
        np.concatenate([np.empty(0, np.int64), *kept]),
        skipped,
    )


def stream_features(
    images: Iterable[ImageSource],
    backbone: Backbone,
    *,
    cache_dir: Path | None = None,
    strict: bool = False,
    advance: Callable[[int], None] = lambda steps: None,
) -> Iterator[ImageFeatures]:
    """Yield the features of images a shard at a time, so that no memory has to hold them all.

    The parameters and errors are those of `extract_features`; what cannot be read is in `skipped`,
    without a warning, and ``kept`` counts from the first of all images.
    """
    folder = (cache_dir or cache_folder() / "features") / backbone.fingerprint
    total = len(images) if isinstance(images, Sized) else None
    keeps, start = True, 0
    pixels_dir = None if cache_dir is None else cache_dir / "pixels"
    with (
        closing(Decoder(backbone.preprocessing, pixels_dir, total=total)) as decoder,
        closing(
            mapped_ahead(
                partial(_read_shard, decoder=decoder, folder=folder),
                shards(images),
                workers=min(_AT_ONCE, joblib.cpu_count()),
            )
        ) as waiting,
        closing(_computed(waiting, backbone, advance)) as computed,
    ):
        for shard in computed:
            features = cast("NDArray[np.float32]", shard.features)
            if shard.images is not None:
                _check(shard, start, backbone.name)
                keeps = keeps and _save(shard.path, features)
            skipped = tuple(
                f"{image_name(shard.sources[i], start + i)}: {fault}"
                for i, fault in shard.faults.items()
            )
            if strict and skipped:
                raise UnreadableImageError(f"cannot read {skipped[0]}")
            kept = np.delete(np.arange(len(shard.sources)), list(shard.faults))
            yield ImageFeatures(features[kept], start + kept, skipped)
            start += len(shard.sources)


@dataclass(frozen=True, eq=False)
class _Shard:
    """Some images, with their features; with their pixels where these were not in the cache."""

    sources: Sequence[ImageSource]
    path: Path
    features: NDArray[np.float32] | None
    images: ImageArray | None
    faults: dict[int, str]


def _read_shard(sources: Sequence[ImageSource], decoder: Decoder, folder: Path) -> _Shard:
    """Return images with their features from the cache, else with their pixels."""
    content = decoder.hash(sources)
    path = folder / f"{content}.npy"
    features = _load(path)
    faults = {} if features is None else _faults(sources, features)
    if features is not None and all(faults.values()):  # else one of them can be read by now
        return _Shard(sources, path, features, None, faults)
    pixels = decoder.kept(sources, content) or decoder.decoded(sources)
    path = folder / f"{pixels.content}.npy"
    return _Shard(sources, path, None, pixels.images, pixels.faults)


def _computed(
    waiting: Iterable[_Shard], backbone: Backbone, advance: Callable[[int], None]
) -> Generator[_Shard]:
    """Yield shards, all with features; of those that follow each other the network sees one stream.

    So no device is idle from the end of one to the beginning of the next.
    """
    for in_cache, some in groupby(waiting, key=lambda shard: shard.images is None):
        if in_cache:
            for shard in some:
                advance(len(shard.sources))
                yield shard
            continue
        begun: deque[_Shard] = deque()
        with closing(backbone.stream(_pixels(some, begun))) as stream:
            batches: list[NDArray[np.float32]] = []
            for batch in stream:
                batches.append(batch)
                advance(len(batch))
                if sum(map(len, batches)) == len(begun[0].sources):
                    features = np.concatenate(batches)
                    shard = begun.popleft()
                    features[list(shard.faults)] = np.nan
                    yield replace(shard, features=features)
                    batches = []


def _pixels(some: Iterable[_Shard], begun: deque[_Shard]) -> Iterator[ImageArray]:
    """Yield the pixels of shards, which are noted as begun."""
    for shard in some:
        begun.append(shard)
        yield cast("ImageArray", shard.images)


def _check(shard: _Shard, start: int, name: str) -> None:
    """Check that the network gave finite numbers for all images that can be read."""
    finite = np.isfinite(cast("NDArray[np.float32]", shard.features)).all(axis=1)
    wrong = [row for row in np.flatnonzero(~finite).tolist() if row not in shard.faults]
    if wrong:
        row = wrong[0]
        image = image_name(shard.sources[row], start + row)
        raise BackboneError(f"backbone {name} gives NaN or infinity for {image}")


def _save(path: Path, features: NDArray[np.float32]) -> bool:
    buffer = io.BytesIO()
    np.save(buffer, features)
    return store(path, buffer.getvalue())


def _load(path: Path) -> NDArray[np.float32] | None:
    content = fetch(path)
    return None if content is None else np.load(io.BytesIO(content))


def _faults(shard: Sequence[ImageSource], features: NDArray[np.float32]) -> dict[int, str]:
    """Return the images without features and why; an empty text if one can be read by now."""
    unreadable = np.flatnonzero(np.isnan(features).any(axis=1)).tolist()
    return {i: image_fault(shard[i]) for i in unreadable}


def _report(skipped: Sequence[str], total: int) -> None:
    if len(skipped) == total:
        raise UnreadableImageError(
            f"none of the {total} images can be read; the first: {skipped[0]}"
        )
    more = len(skipped) - _NAMED_IN_WARNING
    named = "\n".join(skipped[:_NAMED_IN_WARNING]) + (f"\nand {more} more" if more > 0 else "")
    warnings.warn(
        f"skipped {len(skipped)} of {total} images that cannot be read:\n{named}",
        UnreadableImageWarning,
        stacklevel=4,
    )
