"""What one federated training run does: one frozen row of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Strategy = Literal["fedavg", "fedprox", "fedadam", "fedyogi", "fedadagrad", "pfpt"]
Optimizer = Literal["sgd", "adam"]
Mode = Literal["probe", "finetune", "prompt"]
"""What is trained: the head; the network and the head; or prompts before a ViT, and the head."""

ADAPTIVE = ("fedadam", "fedyogi", "fedadagrad")


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of a training run; the defaults are the paper's linear probing from FedCOF.

    Parameters
    ----------
    strategy : {"fedavg", "fedprox", "fedadam", "fedyogi", "fedadagrad", "pfpt"}
        How the server turns the clients' updates into the next model.
    rounds : int, default 200
        Rounds of training, the paper's T.
    participation : float, default 0.3
        The share of the clients that train in a round; at least one does.
    local_epochs : int, default 1
        How often a client goes through its samples in a round.
    batch_size : int, default 64
        Samples a step; the last batch, or the only one of a small client, may be smaller.
    client_lr : float, default 0.001
        Learning rate of the clients.
    server_lr : float, default 1.0
        Learning rate of the server; FedAvg, FedProx and PFPT know 1 only.
    optimizer : {"sgd", "adam"}, default "sgd"
        What the clients step with.
    proximal_mu : float, default 0.0
        Weight of FedProx's pull towards the model of the server.
    seed : int, default 0
        Fixes the clients of every round and the order of their samples.

    Raises
    ------
    ValueError
        If a setting makes no sense; it is named.
    """

    strategy: Strategy = "fedavg"
    rounds: int = 200
    participation: float = 0.3
    local_epochs: int = 1
    batch_size: int = 64
    client_lr: float = 0.001
    server_lr: float = 1.0
    optimizer: Optimizer = "sgd"
    proximal_mu: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        _check_choice("strategy", self.strategy, get_args(Strategy))
        _check_choice("optimizer", self.optimizer, get_args(Optimizer))
        for name in ("rounds", "local_epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("client_lr", "server_lr"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be positive and finite, not {getattr(self, name)}")
        if not 0 < self.participation <= 1:
            raise ValueError(f"participation is a share in (0, 1], not {self.participation}")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, it is {self.seed}")
        if self.server_lr != 1 and self.strategy not in ADAPTIVE:
            raise ValueError(
                f"{self.strategy} averages the clients' models, a server_lr of 1; with "
                f"{self.server_lr} take one of {', '.join(ADAPTIVE)}"
            )
        in_fedprox = 0 < self.proximal_mu < float("inf")
        if not (in_fedprox if self.strategy == "fedprox" else self.proximal_mu == 0):
            raise ValueError(
                f"proximal_mu is the weight of fedprox, positive there and 0 elsewhere; it is "
                f"{self.proximal_mu} with {self.strategy}"
            )


def check_mode(mode: str, strategy: str) -> None:
    """Check that there is such a mode, and that a strategy has what it aggregates.

    Raises
    ------
    ValueError
        If not.
    """
    _check_choice("mode", mode, get_args(Mode))
    if strategy == "pfpt" and mode != "prompt":
        raise ValueError(f"pfpt aggregates prompts: it needs mode prompt, not {mode}")


def chosen_server_lr(given: float | None, strategy: str) -> float:
    """Return the learning rate of the server from what a user gives, which may be nothing.

    Raises
    ------
    ValueError
        If there is none for an adaptive strategy: 1 would carry any head off.
    """
    if given is None and strategy in ADAPTIVE:
        raise ValueError(
            f"{strategy} changes every weight by about server-lr a round: give one that is small "
            "beside the weights, such as 0.0001"
        )
    return 1.0 if given is None else given


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
