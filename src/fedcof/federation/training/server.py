"""Training after collecting: the head goes on from where `serving` left it, over the same nodes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedcof.backbones import Preprocessing
from fedcof.backbones.torch_backbone import network
from fedcof.backbones.torch_engine import fast_on
from fedcof.errors import SettingError, TrainingError
from fedcof.federation.run_config import AppTraining
from fedcof.federation.serving import STORE, Settings
from fedcof.federation.sources import Clients
from fedcof.federation.store import SummaryStore
from fedcof.federation.training.exchange import GridExchange, TrainGrid
from fedcof.federation.training.inputs import as_inputs
from fedcof.heads import LinearHead
from fedcof.settings import read_settings
from fedcof.training import Round, TrainingSettings, check_mode, chosen_server_lr, train
from fedcof.training.classifier import Classifier, best_device
from fedcof.training.exchange import State
from fedcof.training.heads import check_head
from fedcof.training.local import get_state, outputs, set_state
from fedcof.training.prompts import PromptedViT
from fedcof.training.trained import CHECKPOINT, classifier, save_training

HEAD = "head-trained.safetensors"
_PREFIX = "train-"


@dataclass(frozen=True, eq=False)
class Training(AppTraining):
    """Training after collecting, as its server runs it.

    Parameters
    ----------
    federation : Settings
        What came before: the clients' data and backbone, the run folder, how long to wait.
    settings : TrainingSettings
    test : mapping, default {}
        The server's test set, as `sources` has it; without one, accuracies are NaN.
    **settings
        As `AppTraining` declares them.

    Raises
    ------
    SettingError
        If they do not go together.
    BackboneError
        If there is no network with the backbone's weights that can be trained.
    """

    federation: Settings
    settings: TrainingSettings
    test: Clients = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_mode(self.mode, self.settings.strategy)
        for name, needs_test in {"target": self.target, "keep": self.keep == "best"}.items():
            if needs_test and not self.test:
                raise SettingError(name, "is by accuracy on the server's test-data: name them")
        if self.mode == "probe":
            return
        if not self.federation.job.backbone:
            raise SettingError("mode", f"{self.mode} is for images: name their backbone")
        backbone = network(self.federation.job.backbone)
        if self.mode == "prompt":
            try:
                PromptedViT(backbone)
            except ValueError as error:
                raise SettingError("mode", f"prompt: {error}") from None

    @classmethod
    def from_run_config(
        cls, config: Mapping[str, Any], federation: Settings, test: Clients
    ) -> Training:
        """Read the keys ``train-...`` of a run configuration, such as ``train-rounds``.

        Raises
        ------
        SettingError
            If a value makes no sense; its key is named.
        BackboneError
            If the backbone cannot be trained.
        """
        target, server_lr = f"{_PREFIX}target", f"{_PREFIX}server-lr"
        # A run configuration has no None: 0 stands for it.
        given = {key.replace("_", "-"): value for key, value in config.items()}
        given = {k: v for k, v in given.items() if not (k in (target, server_lr) and v == 0)}
        seed = federation.job.sender.seed
        settings = read_settings(TrainingSettings, given, prefix=_PREFIX, seed=seed)
        chosen_server_lr(given.get(server_lr), settings.strategy, name=server_lr)
        return read_settings(
            cls, given, prefix=_PREFIX, federation=federation, settings=settings, test=test
        )

    def run(
        self,
        grid: TrainGrid,
        nodes: Mapping[str, int],
        head: LinearHead,
        *,
        history: Sequence[Round] = (),
        on_round: Callable[[Round], None] = lambda done: None,
    ) -> tuple[LinearHead, list[Round]]:
        """Train from a head; what comes out, and a checkpoint, is kept in the run folder.

        A run that was stopped goes on from the checkpoint, to the same bits.

        Parameters
        ----------
        grid : TrainGrid
        nodes : mapping of str to int
            The SuperNode of each client.
        head : LinearHead
            The start.
        history : sequence of Round, optional
            What came before, as `collected` gives it.
        on_round : callable, optional
            Called with every round.

        Raises
        ------
        HeadError
            If the head does not fit the backbone.
        TrainingError
            If there are too few clients, and as `fedcof.training.train`.
        """
        job, plan, folder = self.federation.job, self.federation.plan, self.federation.run_folder
        if len(nodes) < plan.min_clients:
            raise TrainingError(
                f"{len(nodes)} clients are there, min-clients is {plan.min_clients}: start the "
                "SuperNodes that are missing, or lower min-clients, and run again"
            )
        config = {
            "data": job.data,
            "reading": json.dumps(asdict(job.reading)),
            "backbone": job.backbone,
            "classes": head.classes.tolist(),
            "transform": str(head.transform),
        }
        model, preprocessing = Classifier(nn.Identity(), head), None
        if self.mode != "probe":
            backbone = network(job.backbone)
            check_head(head, backbone.dim, head.classes)
            config["network"], preprocessing = backbone.fingerprint, backbone.preprocessing
            pool_size = self.pool_size if self.mode == "prompt" else None
            model = classifier(backbone, head, pool_size=pool_size, seed=self.settings.seed)
        state, rounds = train(
            GridExchange(grid, nodes, config, self.timeout, self.wait),
            nodes.keys(),
            get_state(model),
            self.settings,
            self._evaluation(model, preprocessing, head.classes),
            history=history,
            target=self.target,
            keep=self.keep,
            evaluate_every=self.evaluate_every,
            checkpoint=folder / CHECKPOINT,
            checkpoint_every=1,  # a round over a network takes longer than a file
            on_round=on_round,
            samples=claimed(self.federation, nodes),
        )
        made_from = None if self.mode == "probe" else {"name": job.backbone}
        return save_training(
            folder,
            state,
            rounds,
            head,
            head=HEAD,
            network=made_from,
            fingerprint=str(config.get("network", "")),
        ), rounds

    def _evaluation(
        self, model: Classifier, preprocessing: Preprocessing | None, classes: NDArray[Any]
    ) -> Callable[[State], float]:
        """Return the accuracy of a state on the test set as a function."""
        name = self.federation.job.backbone
        parts = [
            as_inputs(*samples, backbone=name, preprocessing=preprocessing)
            for samples in self.test.values()
        ]
        fast_on(model, best_device())

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


def claimed(federation: Settings, client_ids: Iterable[str]) -> dict[str, int]:
    """Return the most samples that each client may claim in training: those of its summary.

    Of a client without one, as where a quorum was enough, as many as the largest summary has. None
    is known where a step changes what is sent, such as noise on the counts, or nothing was sent.
    """
    path = federation.run_folder / STORE
    if federation.job.sender.steps or not path.exists():
        return {}
    with SummaryStore(path) as store:
        totals = {summary.client_ids[0]: summary.total for summary in store.summaries()}
    most = max(totals.values(), default=0)
    return {client_id: totals.get(client_id, most) for client_id in client_ids} if most else {}


def collected(federation: Settings, accuracy: float) -> Round:
    """Return the training-free round that a federation's run folder holds."""
    with SummaryStore(federation.run_folder / STORE, federation.fingerprint) as store:
        summaries, sizes = list(store.summaries()), store.sizes()
    return Round(
        number=1,
        stage="training-free",
        accuracy=accuracy,
        formula_bytes=sum(summary.formula_bytes for summary in summaries),
        wire_bytes=sum(sizes[summary.client_ids[0]] for summary in summaries),
        clients=len(summaries),
    )
