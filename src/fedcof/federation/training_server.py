"""Training after collecting: the head goes on from where `serving` left it, over the same nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fedcof.errors import TrainingError
from fedcof.federation.records import DESCRIBE, AnswerError, Job, Roster
from fedcof.federation.training import train
from fedcof.heads import LinearHead
from fedcof.training import Round, TrainingSettings, save_history
from fedcof.training.models import head_of

HEAD = "head-trained.safetensors"
HISTORY = "history.json"
CHECKPOINT = "training.safetensors"
_PREFIX = "train_"
_MOST_CLIENTS = 1_000_000
_PAUSE = 1.0


def settings_of(config: Mapping[str, Any]) -> TrainingSettings:
    """Read the keys ``train-...`` of a run configuration, such as ``train-rounds``.

    Raises
    ------
    ValueError
        If a value makes no sense; it is named.
    """
    given = {key.replace("-", "_"): value for key, value in config.items()}
    names = {f.name for f in fields(TrainingSettings)} - {"seed"}
    chosen = {name: given[_PREFIX + name] for name in names if _PREFIX + name in given}
    return TrainingSettings(**chosen, seed=int(given.get("seed", 0)))


def client_nodes(
    grid: Grid, job: Job, *, min_clients: int = 1, timeout: float = 600.0
) -> dict[str, int]:
    """Ask every node for the names of its clients; return the node of each client.

    Of two nodes with one client, the lower id has it.

    Parameters
    ----------
    grid : Grid
    job : Job
    min_clients : int, default 1
        How many clients to wait for.
    timeout : float, default 600
        How many seconds to wait.

    Raises
    ------
    TrainingError
        If there are not as many.
    """
    deadline = time.monotonic() + timeout
    while len(nodes := _describe(grid, job, timeout)) < min_clients:
        if time.monotonic() > deadline:
            raise TrainingError(f"{len(nodes)} clients are there, {min_clients} are needed")
        time.sleep(_PAUSE)
    return nodes


def _describe(grid: Grid, job: Job, timeout: float) -> dict[str, int]:
    question = RecordDict({"question": ConfigRecord(job.to_record())})
    messages = [
        Message(question, node, f"query.{DESCRIBE}") for node in sorted(grid.get_node_ids())
    ]
    nodes: dict[str, int] = {}
    replies = [one for one in grid.send_and_receive(messages, timeout=timeout) if one.has_content()]
    for reply in sorted(replies, key=lambda one: one.metadata.src_node_id):
        try:
            record = dict(reply.content.config_records["answer"])
            roster = Roster.from_record(record, limit=_MOST_CLIENTS)
        except (AnswerError, KeyError):
            continue
        for client_id in roster.client_ids:
            nodes.setdefault(client_id, reply.metadata.src_node_id)
    return nodes


def probe(
    grid: Grid,
    head: LinearHead,
    job: Job,
    settings: TrainingSettings,
    folder: Path,
    *,
    min_clients: int = 1,
    **options: Any,
) -> tuple[LinearHead, list[Round]]:
    """Train a head by linear probing; head, history and checkpoint are kept in a folder.

    Parameters
    ----------
    grid : Grid
    head : LinearHead
        The start.
    job : Job
        What the clients did before: where their data is, and the backbone.
    settings : TrainingSettings
    folder : path
    min_clients : int, default 1
        How many clients to wait for.
    **options
        As `train` takes them. Without ``evaluate``, a server that has no test set, accuracies are
        NaN.

    Raises
    ------
    TrainingError
        As `train`.
    """
    start = {"head.weight": head.weight.astype(np.float32)}
    if head.bias is not None:
        start["head.bias"] = head.bias.astype(np.float32)
    options.setdefault("evaluate", lambda state: math.nan)
    state, rounds = train(
        grid,
        client_nodes(grid, job, min_clients=min_clients),
        start,
        settings,
        checkpoint=folder / CHECKPOINT,
        data_is={"data": job.data, "backbone": job.backbone, "classes": head.classes.tolist()},
        **options,
    )
    trained = head_of(state, head.classes)
    trained.save(folder / HEAD)
    save_history(rounds, folder / HISTORY)
    return trained, rounds
