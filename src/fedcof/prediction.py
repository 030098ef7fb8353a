"""A head on own data: the backbone that it needs, and scores a few hundred rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import BackboneError, HeadError, NoWeightsError, SettingError
from fedcof.heads import Head

if TYPE_CHECKING:
    from fedcof.backbones import Backbone, ResolvedBackbone
    from fedcof.data import OwnData, Reading

_ROWS = 4096


class Scored(NamedTuple):
    """The scores of some rows of the data.

    Parameters
    ----------
    rows : ndarray of int64, shape (n,)
        Which.
    scores : ndarray of float, shape (n, classes)
    unreadable : mapping of int to str
        The rows among them that cannot be read, and why.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.floating[Any]]
    unreadable: Mapping[int, str]


def backbone_of(head: Head, name: str = "") -> ResolvedBackbone:
    """Return the backbone whose features a head takes.

    Parameters
    ----------
    head : Head
    name : str, default ""
        As `fedcof.backbones.resolve` takes it. Default: the one that the head's provenance says, if
        it is on this machine.

    Raises
    ------
    NoWeightsError
        If the head does not say which, or it is not here.
    BackboneError
        If the one that is named is not the one that the head says.
    """
    from fedcof.backbones import by_origin, resolve

    origin = head.provenance.origin if head.provenance else {}
    wanted = origin.get("backbone")
    if not name:
        if wanted is None:
            raise NoWeightsError(
                "the head does not say which backbone made its features: name it with --backbone"
            )
        found = by_origin(origin)
        if found is None:
            raise NoWeightsError(
                f"the head's features are of the backbone with the fingerprint {wanted}, which is "
                "none of those here that go by a name: give its ONNX file, folder or model id with "
                "--backbone"
            )
        return found
    named = resolve(name)
    if wanted is not None and named.origin["backbone"] != wanted:
        raise BackboneError(
            f"the head's features are of the backbone with the fingerprint {wanted}, but {name} "
            f"here has {named.origin['backbone']} ({named.source}): give the same weights and "
            "preprocessing as at the clients"
        )
    return named


def reading_for(head: Head, reading: Reading) -> Reading:
    """Return how data is read for a head: in the window of the pixels that its clients had.

    Raises
    ------
    SettingError
        If another window is asked for.
    """
    from fedcof.data.pixels import Window

    origin = head.provenance.origin if head.provenance else {}
    asked, wanted = Window.parse(reading.window), origin.get("window")
    if asked is not None and "backbone" in origin and str(asked) != wanted:
        had = f"the window {wanted}" if wanted else "no window"
        raise SettingError("window", f"is {asked}, but the clients of this head had {had}")
    return replace(reading, window=wanted or reading.window)


def check_columns(head: Head, data: OwnData) -> None:
    """Check that the features are the head's columns, in its order, as far as both say so.

    Raises
    ------
    HeadError
        If they are not.
    """
    from fedcof.data.reading.own_data import COLUMNS

    wanted = (head.provenance.origin if head.provenance else {}).get(COLUMNS)
    if data.origin and wanted is not None and data.origin[COLUMNS] != wanted:
        raise HeadError(
            f"{data.places[0]}: the features are other columns than those that the head was made "
            f"of, or in another order; here they are {', '.join(data.feature_names[:5])}"
            f"{', ...' if len(data.feature_names) > 5 else ''}. Give them as the clients did "
            "(--features names them in order)"
        )


def stream_scores(
    head: Head,
    data: Any,
    backbone: Backbone | None = None,
    *,
    advance: Callable[[int], None] = lambda steps: None,
) -> Iterator[Scored]:
    """Yield the scores of features or images, in their order, never holding more than a part.

    Parameters
    ----------
    head : Head
    data : (n, dim) float array, or sequence of n images
    backbone : Backbone, optional
        For images.
    advance : callable
        Called with the number of rows done since the last call.

    Raises
    ------
    HeadError
        If the features have another length than the head's.
    """
    if backbone is not None:
        from fedcof.data import stream_features

        start = 0
        for part in stream_features(data, backbone, advance=advance):
            stop = start + len(part.kept) + len(part.skipped)
            missing = np.setdiff1d(np.arange(start, stop), part.kept).tolist()
            unreadable = dict(zip(missing, part.skipped, strict=True))
            scores = head.decision_function(part.features)
            yield Scored(part.kept, scores, unreadable)
            start = stop
        return
    for start in range(0, len(data), _ROWS):
        features = np.asarray(data[start : start + _ROWS])
        yield Scored(np.arange(start, start + len(features)), head.decision_function(features), {})
        advance(len(features))
