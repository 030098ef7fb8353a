"""Training after collecting: the head goes on from where `serving` left it, over the same nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from numpy.typing import NDArray
from torch import nn

from fedcof.backbones import Preprocessing
from fedcof.backbones.torch_backbone import network
from fedcof.errors import AnswerError, TrainingError
from fedcof.federation.records import DESCRIBE, Job, Roster
from fedcof.federation.serving import STORE, Settings, as_number
from fedcof.federation.sources import Clients
from fedcof.federation.store import SummaryStore
from fedcof.federation.training import MessageGrid, train
from fedcof.federation.training_inputs import as_inputs
from fedcof.heads import LinearHead
from fedcof.training import Mode, Round, TrainingSettings, check_mode, chosen_server_lr
from fedcof.training.classifier import Classifier, best_device
from fedcof.training.heads import check_head
from fedcof.training.local import State, get_state, outputs, set_state
from fedcof.training.prompts import PromptedViT
from fedcof.training.trained import CHECKPOINT, classifier, save_training

HEAD = "head-trained.safetensors"
_PREFIX = "train_"
_MOST_CLIENTS = 1_000_000
_PAUSE = 1.0


class NodeGrid(MessageGrid, Protocol):
    """The SuperNodes."""

    def online(self) -> Collection[int]:
        """Return the ids of those that are connected."""


@dataclass(frozen=True, eq=False)
class Training:
    """Training after collecting, as its server runs it.

    Parameters
    ----------
    federation : Settings
        What came before: the clients' data and backbone, the run folder, how long to wait.
    settings : TrainingSettings
    mode : {"probe", "finetune", "prompt"}, default "probe"
        What is trained: the head; the network and the head; or prompts before a ViT, and the head.
    pool_size : int, default 20
        Number of prompts.
    test : mapping, default {}
        The server's test set, as `sources` has it; without one, accuracies are NaN.
    target : float, optional
        Stop at this accuracy.

    Raises
    ------
    ValueError
        If they do not go together.
    BackboneError
        If there is no network with the backbone's weights that can be trained.
    """

    federation: Settings
    settings: TrainingSettings
    mode: Mode = "probe"
    pool_size: int = 20
    test: Clients = field(default_factory=dict)
    target: float | None = None

    def __post_init__(self) -> None:
        check_mode(self.mode, self.settings.strategy)
        if self.pool_size < 1:
            raise ValueError(f"train-pool-size must be at least 1, it is {self.pool_size}")
        if self.target is not None and not 0 < self.target <= 1:
            raise ValueError(f"train-target is an accuracy from 0 to 1, not {self.target}")
        if self.target is not None and not self.test:
            raise ValueError("train-target is an accuracy on the server's test-data: name them")
        if self.mode == "probe":
            return
        if not self.federation.job.backbone:
            raise ValueError(f"train-mode {self.mode} is for images: name their backbone")
        backbone = network(self.federation.job.backbone)
        if self.mode == "prompt":
            PromptedViT(backbone)  # which says what it needs, before anybody is asked

    @classmethod
    def from_run_config(
        cls, config: Mapping[str, Any], federation: Settings, test: Clients
    ) -> Training:
        """Read the keys ``train-...`` of a run configuration, such as ``train-rounds``.

        Raises
        ------
        ValueError
            If a value makes no sense; it is named.
        BackboneError
            If the backbone cannot be trained.
        """
        given = {key.replace("-", "_"): value for key, value in config.items()}

        def chosen(name: str, kind: Any) -> Any:
            text = kind not in ("int", "float")
            return given[_PREFIX + name] if text else as_number(given, _PREFIX + name, kind)

        kinds = {one.name: one.type for one in fields(TrainingSettings)}
        kinds |= {"mode": "str", "pool_size": "int", "target": "float"}
        found = {
            name: chosen(name, kind) for name, kind in kinds.items() if _PREFIX + name in given
        }
        own = {name: found.pop(name) for name in ("mode", "pool_size", "target") if name in found}
        # In a run configuration 0 stands for nothing.
        own["target"] = own.get("target") or None
        found["server_lr"] = chosen_server_lr(
            found.get("server_lr") or None, found.get("strategy", TrainingSettings.strategy)
        )
        settings = TrainingSettings(**found, seed=federation.job.sender.seed)
        return cls(federation, settings, test=test, **own)

    def run(
        self, grid: NodeGrid, head: LinearHead, **options: Any
    ) -> tuple[LinearHead, list[Round]]:
        """Train from a head; what comes out, and a checkpoint, is kept in the run folder.

        A run that was stopped goes on from the checkpoint, to the same bits.

        Parameters
        ----------
        grid : NodeGrid
        head : LinearHead
            The start.
        **options
            As `train` takes them.

        Raises
        ------
        HeadError
            If the head does not fit the backbone.
        TrainingError
            As `train`.
        """
        job, plan, folder = self.federation.job, self.federation.plan, self.federation.run_folder
        data_is = {"data": job.data, "backbone": job.backbone, "classes": head.classes.tolist()}
        model, preprocessing = Classifier(nn.Identity(), head), None
        if self.mode != "probe":
            backbone = network(job.backbone)
            check_head(head, backbone.dim, head.classes)
            data_is["network"], preprocessing = backbone.fingerprint, backbone.preprocessing
            pool_size = self.pool_size if self.mode == "prompt" else None
            model = classifier(backbone, head, pool_size=pool_size, seed=self.settings.seed)
        state, rounds = train(
            grid,
            client_nodes(grid, job, min_clients=plan.min_clients, timeout=plan.timeout),
            get_state(model),
            self.settings,
            self._evaluation(model, preprocessing, head.classes),
            target=self.target,
            checkpoint=folder / CHECKPOINT,
            checkpoint_every=1,  # a round over a network takes longer than a file
            data_is=data_is,
            **options,
        )
        made_from = None if self.mode == "probe" else {"name": job.backbone}
        return save_training(
            folder, state, rounds, head.classes, head=HEAD, network=made_from
        ), rounds

    def _evaluation(
        self, model: Classifier, preprocessing: Preprocessing | None, classes: NDArray[Any]
    ) -> Callable[[State], float]:
        """Return the accuracy of a state on the test set as a function."""
        name = self.federation.job.backbone
        parts = [
            as_inputs(*own, backbone=name, preprocessing=preprocessing)
            for own in self.test.values()
        ]
        model.to(best_device())

        def evaluate(state: State) -> float:
            set_state(model, state)
            right = [
                classes[batch.argmax(axis=1)]
                for inputs, _ in parts
                for batch in outputs(model, inputs)
            ]
            labels = [labels for _, labels in parts]
            return float(np.mean(np.concatenate(right) == np.concatenate(labels)))

        return evaluate if parts else lambda state: math.nan


def collected(federation: Settings, accuracy: float) -> Round:
    """Return the training-free round that a federation's run folder holds."""
    with SummaryStore(federation.run_folder / STORE, federation.fingerprint) as store:
        summaries = store.summaries()
    return Round(
        number=1,
        stage="training-free",
        accuracy=accuracy,
        formula_bytes=sum(one.formula_bytes for one in summaries),
        wire_bytes=sum(len(one.to_bytes()) for one in summaries),
        clients=len(summaries),
    )


def client_nodes(
    grid: NodeGrid, job: Job, *, min_clients: int = 1, timeout: float = 600.0
) -> dict[str, int]:
    """Ask every node for the names of its clients; return the node of each client.

    Of two nodes with one client, the lower id has it.

    Parameters
    ----------
    grid : NodeGrid
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
            raise TrainingError(
                f"{len(nodes)} clients are there, {min_clients} are needed: start the SuperNodes "
                "that are missing, or lower min-clients, and run again"
            )
        time.sleep(_PAUSE)
    return nodes


def _describe(grid: NodeGrid, job: Job, timeout: float) -> dict[str, int]:
    question = RecordDict({"question": ConfigRecord(job.to_record())})
    messages = [Message(question, node, f"query.{DESCRIBE}") for node in sorted(grid.online())]
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
