"""The head that training starts from, and the one that comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import HeadError
from fedcof.heads import LinearHead, Provenance
from fedcof.transforms import NO_TRANSFORM, Transform

if TYPE_CHECKING:
    from fedcof.training.exchange import State
    from fedcof.training.history import Round

_NAMED_IN_ERROR = 5


def random_head(
    dim: int, classes: ArrayLike, *, seed: int, transform: Transform = NO_TRANSFORM
) -> LinearHead:
    """Return an untrained head, drawn as ``torch.nn.Linear`` draws its weight, without bias."""
    labels = np.unique(np.asarray(classes))
    length = transform.output_dim(dim)
    bound = 1 / np.sqrt(length)
    weight = np.random.default_rng(seed).uniform(-bound, bound, (len(labels), length))
    provenance = Provenance("random", {"seed": seed})
    return LinearHead(weight, labels, provenance=provenance, transform=transform.bound(dim))


def head_of(state: State, classes: NDArray[Any], transform: Transform = NO_TRANSFORM) -> LinearHead:
    """Return the head in a state: it was trained by the cross-entropy of its softmax."""
    weight, bias = state["head.weight"], state.get("head.bias")
    return LinearHead(weight, classes, bias, probabilistic=True, transform=transform)


def trained_head(
    state: State, start: LinearHead, rounds: Sequence[Round], origin: Mapping[str, str]
) -> LinearHead:
    """Return the head in a state, which says what it started from and what made its features.

    Parameters
    ----------
    state : dict of str to ndarray of float32
    start : LinearHead
    rounds : sequence of Round
        All of the history.
    origin : mapping of str to str
        What made the features that it takes.
    """
    before = start.provenance or Provenance("")
    provenance = replace(
        before,
        method="trained",
        hyperparameters={
            "start": before.method,
            "start-hyperparameters": dict(before.hyperparameters),
            "rounds": sum(done.loss is not None for done in rounds),
        },
        clients=max([before.clients, *(done.clients for done in rounds)]),
        formula_bytes=rounds[-1].formula_bytes if rounds else before.formula_bytes,
        origin=origin,
    )
    return replace(head_of(state, start.classes, start.transform), provenance=provenance)


def check_head(head: LinearHead, dim: int, labels: NDArray[Any]) -> None:
    """Check that a head fits features of length ``dim`` with these labels.

    Raises
    ------
    HeadError
        If its features have another length, or its classes are not those of the labels.
    """
    if head.dim != dim:
        raise HeadError(
            f"the head takes features of length {head.dim}, the backbone gives {dim}; solve the "
            "head on features of the same backbone"
        )
    have, want = set(head.classes.tolist()), set(np.unique(labels).tolist())
    if have != want:
        raise HeadError(
            f"the head's {len(have)} classes are not the {len(want)} of the data: "
            f"{_some(want - have)} only in the data, {_some(have - want)} only in the head; solve "
            "the head on this data, or map its labels"
        )


def _some(labels: set[Any]) -> str:
    if not labels:
        return "none"
    named = ", ".join(map(repr, sorted(labels, key=str)[:_NAMED_IN_ERROR]))
    return named if len(labels) <= _NAMED_IN_ERROR else f"{named} and more ({len(labels)} in all)"
