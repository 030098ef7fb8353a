"""The rounds of federated training, over any exchange with the clients.

A round: choose clients, send them the model, check what they send back, let the server's strategy
make the next model of it, measure that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fedcof.errors import TrainingError
from fedcof.training.checking import accepted, check_step
from fedcof.training.checkpoint import Progress, digest, load_checkpoint, save_checkpoint
from fedcof.training.communication import training_bytes
from fedcof.training.exchange import Exchange, State, Task
from fedcof.training.history import Round, best
from fedcof.training.sampling import choose_clients
from fedcof.training.server_optimizers import mean_loss, server_optimizer
from fedcof.training.settings import Keep, TrainingSettings

_NAMED_IN_ERROR = 3


def train(
    exchange: Exchange,
    client_ids: Collection[str],
    start: State,
    settings: TrainingSettings,
    evaluate: Callable[[State], float],
    *,
    history: Sequence[Round] = (),
    target: float | None = None,
    keep: Keep = "last",
    evaluate_every: int = 1,
    checkpoint: Path | None = None,
    checkpoint_every: int = 10,
    on_round: Callable[[Round], None] = lambda done: None,
    depends_on: Mapping[str, Any] | None = None,
    samples: Mapping[str, int] | None = None,
) -> tuple[State, list[Round]]:
    """Train a model with clients.

    Parameters
    ----------
    exchange : Exchange
        How tasks reach the clients: `in_process`, or Flower's messages.
    client_ids : collection of str
        All clients.
    start : dict of str to ndarray of float32
        The parameters to start from.
    settings : TrainingSettings
    evaluate : callable
        From a state to its accuracy on the test set, NaN where there is none.
    history : sequence of Round, optional
        What came before: the training-free rounds.
    target : float, optional
        Stop at the first round with this accuracy.
    keep : {"last", "best"}, default "last"
        Whose model is returned: that of the last round, or of the round (or the start) with the
        highest accuracy, the first of equals.
    evaluate_every : int, default 1
        Rounds from one measurement on the test set to the next; the last is measured in any case.
        The accuracy of the others is NaN, and none of them is the best, or meets the target.
    checkpoint : path, optional
        A file to keep the run in. If it is there, the run goes on from it, to the same bits.
    checkpoint_every : int, default 10
        In rounds.
    on_round : callable, optional
        Called with every round, also with those before a checkpoint.
    depends_on : mapping, optional
        What else the numbers depend on, as JSON has it; kept in the checkpoint, so that it is not
        used for other clients or other data.
    samples : mapping of str to int, optional
        The samples that clients have, where it is known: a reply that claims more is refused.

    Returns
    -------
    state : dict of str to ndarray of float32
    rounds : list of Round
        ``history``, the start, and the rounds of training.

    Raises
    ------
    TrainingError
        If no update of a round can be used, the server's step diverges, or the checkpoint belongs
        to another run or has more rounds. The checkpoint before it stays.
    """
    optimizer = server_optimizer(settings)
    run = {
        **asdict(settings),
        "keep": keep,
        "evaluate_every": evaluate_every,
        "start": digest(start),
        **(depends_on or {}),
    }
    del run["rounds"]  # more rounds are the same run, further on
    if checkpoint is not None and checkpoint.exists():
        progress = load_checkpoint(checkpoint, run)
    else:
        first = _start(history, evaluate(start))
        progress = Progress(start, optimizer.init(start), (*history, first), start)
    made = len(progress.rounds) - len(history) - 1
    if made > settings.rounds:
        raise TrainingError(
            f"{checkpoint} has {made} rounds of training, more than {settings.rounds}: ask for as "
            "many, give another folder, or delete it to start again"
        )
    if keep == "best" and math.isnan(progress.rounds[len(history)].accuracy):
        raise TrainingError("there is no test set to tell the best round: keep the last")
    for done in progress.rounds:
        on_round(done)
    for server_round in range(made + 1, settings.rounds + 1):
        if target is not None and progress.rounds[-1].accuracy >= target:
            break
        chosen = choose_clients(
            client_ids, settings.participation, seed=settings.seed, server_round=server_round
        )
        task = Task(progress.state, settings, server_round)
        replies = exchange(task, chosen)
        updates, refused = accepted(replies, chosen, task.state, samples or {})
        if not updates:
            raise TrainingError(
                f"round {server_round}: none of the {len(chosen)} replies can be used; "
                + "; ".join(refused[:_NAMED_IN_ERROR])
                + _kept(checkpoint)
            )
        state, moments = optimizer.apply(progress.moments, task.state, updates, server_round)
        check_step(state, server_round)
        last = progress.rounds[-1]
        measured = server_round % evaluate_every == 0 or server_round == settings.rounds
        parameters = sum(value.size for value in task.state.values())
        done = Round(
            number=last.number + 1,
            stage="training",
            accuracy=evaluate(state) if measured else math.nan,
            formula_bytes=last.formula_bytes + training_bytes(parameters, 1, len(chosen)),
            wire_bytes=last.wire_bytes + replies.wire_bytes,
            clients=len(updates),
            loss=mean_loss(updates),
            refused=tuple(refused),
        )
        progress = Progress(state, moments, (*progress.rounds, done), progress.kept)
        if keep == "last" or best(progress.rounds[len(history) :]) is progress.rounds[-1]:
            progress = replace(progress, kept=progress.state)
        on_round(progress.rounds[-1])
        if checkpoint is not None and (
            server_round % checkpoint_every == 0 or server_round == settings.rounds
        ):
            save_checkpoint(checkpoint, progress, run)
    return progress.kept, list(progress.rounds)


def _kept(checkpoint: Path | None) -> str:
    """Return what a run that stops leaves, as the end of a message."""
    if checkpoint is None or not checkpoint.exists():
        return ""
    return f". {checkpoint} keeps the rounds before it: the same run goes on from there"


def _start(history: Sequence[Round], accuracy: float) -> Round:
    last = history[-1] if history else Round(-1, "training", 0.0, 0, 0, 0)
    return Round(
        last.number + 1, "training", accuracy, last.formula_bytes, last.wire_bytes, clients=0
    )
