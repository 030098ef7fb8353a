"""Features of images by the workers of an engine: files are dealt, each worker has its own session.

The pieces are the shards of `fedcof.data.extract_features`, so the features are the same, and are
found again in the cache of the machine that made them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any

from fedcof.backbones import Backbone, get
from fedcof.data.cache import ImageFeatures, gathered, stream_features
from fedcof.data.decoded import SHARD_SIZE
from fedcof.data.images import ImageSource
from fedcof.scale.ray_engine import Engine


@dataclass(frozen=True)
class Recipe:
    """How a worker makes the backbone.

    Parameters
    ----------
    backbone : str
    preprocessing : mapping, default {}
        As `fedcof.backbones.get` takes them.
    """

    backbone: str
    preprocessing: Mapping[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.backbone, repr(sorted(self.preprocessing.items()))))

    @lru_cache(maxsize=1)  # noqa: B019  # a worker makes one, which it keeps
    def made(self) -> Backbone:
        """Return the backbone, which every process makes once."""
        return get(self.backbone, preprocessing=self.preprocessing or None)


def extract_features(
    images: Iterable[ImageSource],
    recipe: Recipe,
    engine: Engine[Any, Any],
    *,
    advance: Callable[[int], None] = lambda steps: None,
) -> ImageFeatures:
    """Return the features of images, as `fedcof.data.extract_features` does in this process.

    Parameters
    ----------
    images : iterable of paths, encoded images (bytes) or pixel arrays
        A path must lead to the same file on every machine.
    recipe : Recipe
    engine : callable
        As `fedcof.scale.ray_engine.ray_engine` gives it.
    advance : callable
        Called with the number of images of every piece that is done.

    Raises
    ------
    UnreadableImageError, BackboneError
        As there.
    """

    def parts() -> Iterator[ImageFeatures]:
        start = 0
        for part in engine(partial(_features_of, recipe), _pieces(images)):
            images_in_it = len(part.kept) + len(part.skipped)
            yield replace(part, kept=part.kept + start)
            start += images_in_it
            advance(images_in_it)

    return gathered(parts(), recipe.made().dim)


def _pieces(images: Iterable[ImageSource]) -> Iterator[list[ImageSource]]:
    iterator = iter(images)
    while piece := list(islice(iterator, SHARD_SIZE)):
        yield piece


def _features_of(recipe: Recipe, images: list[ImageSource]) -> ImageFeatures:
    [found] = stream_features(images, recipe.made())
    return found
