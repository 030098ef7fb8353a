"""What one federated training run does: one frozen row of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedcof.errors import SettingError
from fedcof.settings import check_settings, setting

Strategy = Literal["fedavg", "fedprox", "fedadam", "fedyogi", "fedadagrad", "pfpt"]
Optimizer = Literal["sgd", "adam"]
Mode = Literal["probe", "finetune", "prompt"]
"""What is trained: the head; the network and the head; or prompts before a ViT, and the head."""
Precision = Literal["float32", "bf16"]
"""Of the products in a step: bfloat16 is faster where a GPU has units for it."""
Keep = Literal["last", "best"]
"""Whose model a run gives: that of the last round, or of the round with the highest accuracy."""

ADAPTIVE = ("fedadam", "fedyogi", "fedadagrad")


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of a training run; the defaults are the paper's linear probing from FedCOF.

    Raises
    ------
    SettingError
        If a setting is out of its range, or two do not go together; it is named.
    """

    strategy: Strategy = setting("fedavg", "How the server makes the next model of the updates.")
    rounds: int = setting(200, "Rounds of training, the paper's T.", minimum=1)
    participation: float = setting(
        0.3, "Share of the clients that train in a round; at least one does.", above=0, maximum=1
    )
    local_epochs: int = setting(1, "Epochs of a client in a round.", minimum=1)
    batch_size: int = setting(64, "Samples a step; the last batch may be smaller.", minimum=1)
    client_lr: float = setting(0.001, "Learning rate of the clients.", above=0)
    server_lr: float = setting(
        1.0, "Learning rate of fedadam, fedyogi, fedadagrad; 1 elsewhere.", above=0
    )
    optimizer: Optimizer = setting("sgd", "What the clients step with.")
    proximal_mu: float = setting(
        0.0, "Weight of fedprox's pull towards the server's model; 0 elsewhere.", minimum=0
    )
    seed: int = setting(
        0, "Fixes the clients of every round and the order of their samples.", minimum=0
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.server_lr != 1 and self.strategy not in ADAPTIVE:
            raise SettingError(
                "server_lr",
                f"must be 1 with {self.strategy}, which averages the clients' models, it is "
                f"{self.server_lr}; or take one of {', '.join(ADAPTIVE)}",
            )
        if (self.proximal_mu > 0) != (self.strategy == "fedprox"):
            raise SettingError(
                "proximal_mu",
                "is the weight of fedprox, positive there and 0 elsewhere; it is "
                f"{self.proximal_mu} with {self.strategy}",
            )


@dataclass(frozen=True, kw_only=True)
class TrainingGoal:
    """What a training run trains, when it is there, and which model it gives.

    Raises
    ------
    SettingError
        If a setting is out of its range; it is named.
    """

    mode: Mode = setting(
        "probe", "probe: the head; finetune: the network too; prompt: prompts of a ViT, and head."
    )
    pool_size: int = setting(20, "Number of prompts.", minimum=1)
    target: float | None = setting(
        None, "Stop at this accuracy on the test set, from 0 to 1.", above=0, maximum=1
    )
    keep: Keep = setting(
        "last", "Save the model of the last round, or of the best on the test set."
    )
    evaluate_every: int = setting(
        1, "Rounds from one measurement on the test set to the next.", minimum=1
    )

    def __post_init__(self) -> None:
        check_settings(self)


def check_mode(mode: str, strategy: str) -> None:
    """Check that a strategy has what it aggregates.

    Raises
    ------
    SettingError
        If not.
    """
    if strategy == "pfpt" and mode != "prompt":
        raise SettingError(
            "mode", f"must be prompt with pfpt, which aggregates prompts, it is {mode}"
        )


def chosen_server_lr(given: float | None, strategy: str, *, name: str = "server-lr") -> float:
    """Return the learning rate of the server from what a user gives, which may be nothing.

    Parameters
    ----------
    given : float, optional
    strategy : str
    name : str, default "server-lr"
        What the user calls it.

    Raises
    ------
    SettingError
        If there is none for an adaptive strategy: with 1, a round would change every weight by
        about 1.
    """
    if given is None and strategy in ADAPTIVE:
        raise SettingError(
            name,
            f"is about what {strategy} changes every weight by in a round: give one that is small "
            "beside the weights, such as 0.0001",
        )
    return 1.0 if given is None else given
