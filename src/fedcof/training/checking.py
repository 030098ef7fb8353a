"""Which updates the server can use."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from fedcof.errors import RefusedReplyError, TrainingError
from fedcof.training.exchange import Replies, State, Update


def accepted(
    replies: Replies, client_ids: Iterable[str], state: State
) -> tuple[list[Update], list[str]]:
    """Return the updates that can be used, and for each other client why it has none.

    Both are in the order of the clients' ids, so that the order of arrival changes no bit of a sum.
    """
    used, refused = [], []
    for client_id in sorted(client_ids):
        try:
            if client_id not in replies.updates:
                raise RefusedReplyError(replies.failed.get(client_id, "no reply"))
            check_update(replies.updates[client_id], state)
            used.append(replies.updates[client_id])
        except RefusedReplyError as error:
            refused.append(f"client {client_id!r}: {error}")
    return used, refused


def check_update(update: Update, state: State) -> None:
    """Check that an update can be averaged, so that one bad client never stops the others.

    Parameters
    ----------
    update : Update
        Of a client that may send anything.
    state : dict of str to ndarray of float32
        The parameters that were sent to the client.

    Raises
    ------
    RefusedReplyError
        If the update has other arrays or shapes than the state, holds NaN or infinity, or does not
        say how many samples the client has and what its loss was.
    """
    if not isinstance(update.num_examples, int) or update.num_examples < 1:
        raise RefusedReplyError(f"num-examples is {update.num_examples}, expected at least 1")
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
