"""Training from a head as a procedure of an experiment."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from fedcof.experiments.clients import Clients
from fedcof.experiments.experiment import Execution, Procedure
from fedcof.experiments.participation import participate
from fedcof.experiments.training import Federation, on_images, probing
from fedcof.heads import LinearHead, linear
from fedcof.methods import Method
from fedcof.training import Mode, Round, TrainingSettings


@dataclass(frozen=True)
class Training(Procedure):
    """Training-free rounds of a method, then rounds of training from its head.

    Parameters
    ----------
    start : Method or None
        Solved in training-free rounds; None for a random head.
    training : TrainingSettings
    mode : {"probe", "finetune", "prompt"}
    pretrained : bool, default True
        False for a network of random weights.
    pool_size : int, optional
        Number of prompts of a ViT.
    """

    start: Method[Any] | None
    training: TrainingSettings
    mode: Mode = "probe"
    pretrained: bool = True
    pool_size: int | None = None

    @property
    def trains(self) -> bool:
        """It does."""
        return True

    @property
    def needs_gpu(self) -> bool:
        """Whether it trains more than the head."""
        return self.mode != "probe"

    @property
    def label(self) -> str:
        """The start, the strategy and what is trained, such as "fedcof+fedadam"."""
        suffix = {"probe": "-lp", "finetune": "", "prompt": "-pt"}[self.mode]
        strategy = self.training.strategy
        label = strategy if strategy == "pfpt" else strategy + suffix
        if self.start is not None:
            label = f"{self.start.name}+{label}"
        return label if self.pretrained else f"{label} (not pre-trained)"

    def shortened(self, rounds: int) -> Training:
        """Return the training with at most so many rounds."""
        rounds = min(rounds, self.training.rounds)
        return replace(self, training=replace(self.training, rounds=rounds))

    def columns(self) -> dict[str, Any]:
        """Return the label, and the settings of the start and of the training."""
        return {
            **({} if self.start is None else asdict(self.start)),
            **asdict(self.training),
            "pool_size": self.pool_size,
            "method": self.label,
        }

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return accuracy and bytes after the last round, and the history of all."""
        seed, dealt = clients.seed, clients.dealt
        training = replace(self.training, seed=seed)
        history: list[Round] = []
        if self.start is None:
            from fedcof.training.heads import random_head

            head = random_head(dealt.features.shape[1], dealt.labels, seed=seed)
        else:
            start = self.start.seeded(seed)
            solved, history = participate(
                start,
                clients.collected(clients.sender(start)),
                dealt,
                participation=training.participation,
                seed=seed,
                on_round=execution.on_round,
            )
            head = linear(solved)
        _, history = self._federation(clients, head, execution.device).train(
            training, history=history, checkpoint=execution.checkpoint, on_round=execution.on_round
        )
        last = history[-1]
        return {
            "accuracy": last.accuracy,
            "formula_bytes": last.formula_bytes,
            "wire_bytes": last.wire_bytes,
            "rounds": [asdict(each) for each in history],
        }

    def _federation(self, clients: Clients, head: LinearHead, device: str) -> Federation:
        if self.mode == "probe":
            return probing(clients.dealt, head)
        from fedcof.backbones.torch_backbone import network

        source, dealt = clients.source, clients.dealt
        if source.data.images is None:
            raise ValueError("a table of features has no images, on which a network is trained")
        backbone = network(
            source.backbone,
            preprocessing=source.data.preprocessing,
            pretrained=self.pretrained,
            seed=clients.seed,
        )
        return on_images(
            *source.data.images,
            dealt.partition,
            backbone,
            head,
            pool_size=self.pool_size,
            seed=clients.seed,
            device=device,
        )
