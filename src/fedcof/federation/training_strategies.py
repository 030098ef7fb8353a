"""Flower's strategies by the names of the settings, and what of them a checkpoint keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedProx, FedYogi
from flwr.serverapp.strategy.fedopt import FedOpt
from numpy.typing import NDArray

from fedcof.federation.training_messages import ARRAYS
from fedcof.training import TrainingSettings
from fedcof.training.prompt_pool import aggregate_prompts
from fedcof.training.trained import PROMPTS

_MOMENTS = ("m_t", "v_t")
_ADAPTIVE: dict[str, type[FedOpt]] = {
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedadagrad": FedAdagrad,
}
# The constants of the paper's published configuration, not Flower's defaults (0.99 and 1e-3): at
# server learning rates of 1e-4, updates are far below 1e-3, which would switch the adaptation off.
_BETAS: dict[str, Any] = {"beta_1": 0.9, "beta_2": 0.999}
_TAU = 1e-8


class PFPT(FedAvg):
    """FedAvg whose prompts are aggregated as sets; see `fedcof.training.prompt_pool`."""

    def __init__(self, *, seed: int, **options: Any) -> None:
        super().__init__(**options)
        self._seed = seed

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, *rest: Any
    ) -> Iterable[Message]:
        """Keep the prompts that are sent."""
        self._start = arrays[PROMPTS].numpy()
        return super().configure_train(server_round, arrays, *rest)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the head and match the prompts."""
        replies = list(replies)
        arrays, metrics = super().aggregate_train(server_round, replies)
        if arrays is not None:
            pools = [reply.content.array_records[ARRAYS][PROMPTS].numpy() for reply in replies]
            arrays[PROMPTS] = Array(
                aggregate_prompts(pools, self._start, seed=[self._seed, server_round])
            )
        return arrays, metrics


def make_strategy(settings: TrainingSettings) -> FedAvg:
    """Return the strategy, for all nodes of the grid that it is given: the caller chooses them."""
    every_node: dict[str, Any] = {
        "fraction_train": 1.0,
        "min_train_nodes": 1,
        "min_available_nodes": 1,
    }
    if settings.strategy == "fedprox":
        return FedProx(proximal_mu=settings.proximal_mu, **every_node)
    if settings.strategy == "pfpt":
        return PFPT(seed=settings.seed, **every_node)
    if settings.strategy == "fedavg":
        return FedAvg(**every_node)
    betas = {} if settings.strategy == "fedadagrad" else _BETAS
    return _ADAPTIVE[settings.strategy](
        eta=settings.server_lr, eta_l=settings.client_lr, tau=_TAU, **betas, **every_node
    )


def optimizer_state(strategy: FedAvg) -> dict[str, NDArray[np.floating]]:
    """Return the moments of an adaptive strategy as flat arrays, empty for the others."""
    return {
        f"{moment}/{name}": np.asarray(value)
        for moment in _MOMENTS
        for name, value in (getattr(strategy, moment, None) or {}).items()
    }


def set_optimizer_state(strategy: FedAvg, arrays: dict[str, NDArray[np.floating]]) -> None:
    """Put back what `optimizer_state` gave."""
    for moment in _MOMENTS:
        own = {
            name.removeprefix(f"{moment}/"): value
            for name, value in arrays.items()
            if name.startswith(f"{moment}/")
        }
        if own:
            setattr(strategy, moment, own)
