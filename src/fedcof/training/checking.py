"""Which updates the server can use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np

from fedcof.errors import RefusedReplyError, TrainingError
from fedcof.training.exchange import Replies, State, Update

_GROWTH = 1.1
"""A client may have gained so many samples since it said how many it has."""

_FARTHEST = 10.0
"""How many times as far as the others' a client's parameters may move, for as many samples."""

_JUDGES = 3
"""From so many updates on, they are compared with each other."""


def accepted(
    replies: Replies,
    client_ids: Iterable[str],
    state: State,
    samples: Mapping[str, int] = MappingProxyType({}),
) -> tuple[list[Update], list[str]]:
    """Return the updates that can be used, and for each other client why it has none.

    Both are in the order of the clients' ids, so that the order of arrival changes no bit of a sum.

    Parameters
    ----------
    replies : Replies
    client_ids : iterable of str
        Those that were asked.
    state : dict of str to ndarray of float32
        The parameters that were sent to them.
    samples : mapping of str to int, default {}
        The samples that clients have, where the server knows it: none may claim more.
    """
    used: dict[str, Update] = {}
    refused: dict[str, str] = {}
    for client_id in sorted(client_ids):
        try:
            if client_id not in replies.updates:
                raise RefusedReplyError(replies.failed.get(client_id, "no reply"))
            update = replies.updates[client_id]
            check_update(update, state, samples.get(client_id))
            used[client_id] = update
        except RefusedReplyError as error:
            refused[client_id] = str(error)
    for client_id, reason in _too_far(used, state).items():
        del used[client_id]
        refused[client_id] = reason
    return list(used.values()), [f"client {name!r}: {refused[name]}" for name in sorted(refused)]


def _too_far(updates: Mapping[str, Update], state: State) -> dict[str, str]:
    """Return the clients whose parameters moved much farther than the others', with the reason.

    A client with more samples than the others takes more steps, and may move as much farther.
    """
    if len(updates) < _JUDGES:
        return {}
    moved = np.array([_distance(update.state, state) for update in updates.values()])
    examples = np.array([float(update.num_examples) for update in updates.values()])
    usual = float(np.median(moved))
    allowed = _FARTHEST * usual * np.maximum(1, examples / np.median(examples))
    return {
        client_id: f"its parameters moved {far / usual:.3g} times as far as those of most clients"
        for client_id, far, most in zip(updates, moved, allowed, strict=True)
        if far > most > 0
    }


def _distance(one: State, other: State) -> float:
    squares = (
        float(np.square(one[name].astype(np.float64) - value).sum())
        for name, value in other.items()
    )
    return math.sqrt(sum(squares))


def check_update(update: Update, state: State, samples: int | None = None) -> None:
    """Check that an update can be averaged, so that one bad client never stops the others.

    Parameters
    ----------
    update : Update
        Of a client that may send anything.
    state : dict of str to ndarray of float32
        The parameters that were sent to the client.
    samples : int, optional
        The samples that the client has, where the server knows it.

    Raises
    ------
    RefusedReplyError
        If the update has other arrays or shapes than the state, holds NaN or infinity, does not say
        how many samples the client has and what its loss was, or claims more than it has.
    """
    if not isinstance(update.num_examples, int) or update.num_examples < 1:
        raise RefusedReplyError(f"num-examples is {update.num_examples}, expected at least 1")
    if samples is not None and update.num_examples > _GROWTH * samples:
        raise RefusedReplyError(
            f"num-examples is {update.num_examples}, the client has {samples} samples"
        )
    if set(update.state) != set(state):
        raise RefusedReplyError(f"the arrays are {sorted(update.state)}, expected {sorted(state)}")
    for name, value in update.state.items():
        shape = state[name].shape
        if value.shape != shape or value.dtype != np.float32:
            raise RefusedReplyError(
                f"{name} is {value.dtype} of shape {value.shape}, expected float32 of shape {shape}"
            )
        if not np.isfinite(value).all():
            raise RefusedReplyError(
                f"{name} holds NaN or infinity: the client's training diverged; a smaller "
                "client_lr may help"
            )
    # Last, because of a training that diverged the arrays say more than the loss does.
    if not isinstance(update.loss, int | float) or not math.isfinite(update.loss):
        raise RefusedReplyError(f"loss is {update.loss}, expected a finite number")


def check_step(state: State, server_round: int) -> None:
    """Check that the server's step gave finite numbers.

    Raises
    ------
    TrainingError
        If not; the round is named.
    """
    for name, value in state.items():
        if not np.isfinite(value).all():
            raise TrainingError(
                f"round {server_round}: the server's step made {name} NaN or infinite; take a "
                "smaller server_lr"
            )
