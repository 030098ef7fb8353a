"""How the server makes the next model of the clients' updates: pure functions on states.

Every strategy is a pair of functions: ``init(state)`` gives the moments that the server keeps
between rounds, and ``apply(moments, state, updates, server_round)`` gives the next state and the
next moments. The updates come in the order of the clients' ids, so that the order of arrival
changes no bit of a sum.

The numbers are those of the strategies of the same names in Flower.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcof.training.exchange import PROMPTS, State, Update
from fedcof.training.settings import TrainingSettings

Moments = Mapping[str, State]
"""What a strategy remembers: by the name of the moment, then by that of the parameter."""

# The constants of the paper's published configuration, not Flower's defaults (0.99 and 1e-3): at
# learning rates of 1e-4 updates are far below 1e-3, which would switch the adaptation off.
_BETA_1, _BETA_2, _TAU = 0.9, 0.999, 1e-8

Array = NDArray[np.floating]


class ServerOptimizer(NamedTuple):
    """A strategy of the server."""

    init: Callable[[State], Moments]
    apply: Callable[[Moments, State, Sequence[Update], int], tuple[State, Moments]]


def server_optimizer(settings: TrainingSettings) -> ServerOptimizer:
    """Return the strategy that the settings name.

    FedProx aggregates as FedAvg does; its proximal term is the clients' (`local_update`).
    """
    if settings.strategy in ("fedavg", "fedprox"):
        return averaging()
    if settings.strategy == "pfpt":
        return prompt_matching(settings.seed)
    return adaptive(settings)


def average(updates: Sequence[Update]) -> State:
    """Return the mean of the clients' parameters, weighted with their numbers of samples."""
    weights = _weights(updates)
    mean = {name: value * weights[0] for name, value in updates[0].state.items()}
    for update, weight in zip(updates[1:], weights[1:], strict=True):
        for name, value in update.state.items():
            mean[name] += value * weight
    return mean


def mean_loss(updates: Sequence[Update]) -> float:
    """Return the mean of the clients' losses, weighted with their numbers of samples."""
    weighted = zip(updates, _weights(updates), strict=True)
    return float(sum(update.loss * weight for update, weight in weighted))


def _weights(updates: Sequence[Update]) -> list[float]:
    total = sum(update.num_examples for update in updates)
    return [update.num_examples / total for update in updates]


def averaging() -> ServerOptimizer:
    """Return FedAvg: the next model is the weighted mean of the clients'."""
    return ServerOptimizer(
        init=lambda state: {},
        apply=lambda moments, state, updates, server_round: (average(updates), moments),
    )


def adaptive(settings: TrainingSettings) -> ServerOptimizer:
    """Return FedAdam, FedYogi or FedAdagrad: the mean update is the gradient of an optimizer.

    Only FedAdam corrects the bias of its first rounds, with ``server_round + 1`` as in Flower.
    """
    beta_1, second_moment = _ADAPTIVE[settings.strategy]

    def init(state: State) -> Moments:
        zeros = {name: np.zeros_like(value) for name, value in state.items()}
        return {"m_t": zeros, "v_t": zeros}

    def apply(
        moments: Moments, state: State, updates: Sequence[Update], server_round: int
    ) -> tuple[State, Moments]:
        mean = average(updates)
        delta = {name: mean[name] - value for name, value in state.items()}
        m = {k: beta_1 * v + (1 - beta_1) * delta[k] for k, v in moments["m_t"].items()}
        v = {name: second_moment(v, delta[name] ** 2) for name, v in moments["v_t"].items()}
        rate: np.floating | float = settings.server_lr
        if settings.strategy == "fedadam":
            correction = 1 - np.power(_BETA_2, server_round + 1.0)
            rate = rate * np.sqrt(correction) / (1 - np.power(_BETA_1, server_round + 1.0))
        stepped = {k: x + rate * m[k] / (np.sqrt(v[k]) + _TAU) for k, x in state.items()}
        return _float32(stepped), {"m_t": m, "v_t": v}

    return ServerOptimizer(init, apply)


def prompt_matching(seed: int) -> ServerOptimizer:
    """Return PFPT: prompts are matched as sets (`prompt_pool`), all else is averaged."""

    def apply(
        moments: Moments, state: State, updates: Sequence[Update], server_round: int
    ) -> tuple[State, Moments]:
        from fedcof.training.prompt_pool import aggregate_prompts  # torch, only needed here

        pools = [update.state[PROMPTS] for update in updates]
        prompts = aggregate_prompts(pools, state[PROMPTS], seed=[seed, server_round])
        return _float32({**average(updates), PROMPTS: prompts}), moments

    return ServerOptimizer(lambda state: {}, apply)


def _adam(v: Array, square: Array) -> Array:
    return _BETA_2 * v + (1 - _BETA_2) * square


def _yogi(v: Array, square: Array) -> Array:
    return v - (1 - _BETA_2) * square * np.sign(v - square)


def _adagrad(v: Array, square: Array) -> Array:
    return v + square


_ADAPTIVE = {"fedadam": (_BETA_1, _adam), "fedyogi": (_BETA_1, _yogi), "fedadagrad": (0, _adagrad)}


def _float32(state: Mapping[str, Array]) -> State:
    return {name: np.asarray(value, dtype=np.float32) for name, value in state.items()}
