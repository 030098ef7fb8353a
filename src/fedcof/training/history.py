"""What happened, round by round: one history for the training-free rounds and the training."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from fedcof.files import write_atomically


@dataclass(frozen=True)
class Round:
    """One round and where the run stands after it.

    Parameters
    ----------
    number : int
        0 for the start, counted over both stages.
    stage : {"training-free", "training"}
    accuracy : float
        On the test set, from 0 to 1; NaN where there is none, or it was not measured.
    formula_bytes, wire_bytes : int
        What was sent from the beginning on: by the paper's formulas, and as messages.
    clients : int
        How many took part.
    loss : float, optional
        Mean training loss of the clients, weighted with their samples; None where nothing trains.
    refused : tuple of str
        The clients whose replies were not used, each with the reason.
    """

    number: int
    stage: Literal["training-free", "training"]
    accuracy: float
    formula_bytes: int
    wire_bytes: int
    clients: int
    loss: float | None = None
    refused: tuple[str, ...] = ()


def best(rounds: Sequence[Round]) -> Round:
    """Return the round with the highest accuracy, the first of equals; one without comes last."""
    return max(rounds, key=lambda done: -1.0 if math.isnan(done.accuracy) else done.accuracy)


def save_history(history: Sequence[Round], path: Path) -> None:
    """Write a history as JSON, one object a round; an accuracy that is NaN is null."""
    rounds = ",\n  ".join(
        json.dumps(asdict(done) | ({"accuracy": None} if math.isnan(done.accuracy) else {}))
        for done in history
    )
    write_atomically(path, f"[\n  {rounds}\n]\n".encode())


def load_history(path: Path) -> list[Round]:
    """Read what `save_history` wrote."""
    return [
        Round(
            **{
                **saved,
                "accuracy": math.nan if saved["accuracy"] is None else saved["accuracy"],
                "refused": tuple(saved["refused"]),
            }
        )
        for saved in json.loads(path.read_text())
    ]


@contextmanager
def tensorboard(log_dir: Path) -> Iterator[Callable[[Round], None]]:
    """Yield a function that logs a round for TensorBoard.

    A run that is resumed logs all of its rounds again; TensorBoard hides those of before.
    """
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(log_dir), purge_step=0) as writer:

        def log(done: Round) -> None:
            writer.add_scalar("accuracy", done.accuracy, done.number)
            writer.add_scalar("megabytes/formula", done.formula_bytes / 1e6, done.number)
            writer.add_scalar("megabytes/wire", done.wire_bytes / 1e6, done.number)
            writer.add_scalar("refused clients", len(done.refused), done.number)
            if done.loss is not None:
                writer.add_scalar("loss", done.loss, done.number)

        yield log
