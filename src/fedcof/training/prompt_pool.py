"""Probabilistic aggregation of prompt pools: which prompts of different clients are one.

A client's prompts are a set: the third prompt of one client need not mean what the third of another
does, so averaging them position by position, as FedAvg does, mixes meanings. PFPT [1]_ takes every
client's pool as a draw from a generative model: client k holds global prompt i with probability
p_i, and then holds it with Gaussian noise around it. The global prompts are those of the highest
likelihood, found by turns: given the global prompts, the assignment of each client's prompts is a
linear assignment problem; given the assignments, the global prompts and the probabilities follow.

What is taken from [1]_ is the model, the Hungarian assignment and the turns. There, variances and
probabilities are small neural networks of the global prompts, fitted by Adam; here they have the
closed forms of the Beta-Bernoulli matching of [2]_, with its price for a prompt that nobody else
has. So there is nothing to tune and the result is the same every time. The selection of a few
prompts of the pool for every input, by which a client of [1]_ may send fewer prompts than it got,
is not part of this package: all prompts stand before the patches. A pool can therefore grow here
and does not fall below the size that the clients send.

References
----------
.. [1] Weng et al., "Probabilistic Federated Prompt-Tuning with Non-IID and Imbalanced Data", 2024.
.. [2] Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural Networks", 2019.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

_SMALLEST_VARIANCE = 1e-12
_NEVER = 1e100


def aggregate_prompts(
    pools: Sequence[NDArray[np.floating]],
    start: NDArray[np.floating],
    *,
    new_prompts: float = 1.0,
    sweeps: int = 10,
) -> NDArray[np.float64]:
    """Return the global prompts that best explain the clients' pools.

    Parameters
    ----------
    pools : sequence of ndarray of float, each of shape (prompts of the client, dim)
        In the order of the clients' ids.
    start : ndarray of float, shape (prompts, dim)
        The global prompts that the clients started from.
    new_prompts : float, default 1.0
        The mass of the Beta-Bernoulli process: how many prompts of its own a client is expected to
        have. Small values keep the pool small.
    sweeps : int, default 10
        At most so many turns; fewer where the assignments stay.

    Returns
    -------
    ndarray of float64, shape (global prompts, dim)
        Those of the start that somebody holds, in their order, and then the new ones.
    """
    spread = max(float(np.concatenate([start, *pools]).var(axis=0).mean()), _SMALLEST_VARIANCE)
    prompts = np.asarray(start, dtype=np.float64)
    chosen = [np.arange(len(pool)) for pool in pools]
    for _ in range(sweeps):
        noise = _noise(pools, chosen, prompts)
        # A new prompt has no noise around it yet, but the broad law of all prompts over it.
        fresh = prompts.shape[1] / 2 * np.log(spread / noise) + np.log(len(pools) / new_prompts)
        previous = list(chosen)
        for k, pool in enumerate(pools):
            others = [one for j, one in enumerate(chosen) if j != k]
            holders = np.bincount(
                np.concatenate([np.empty(0, np.int64), *others]), minlength=len(prompts)
            )
            chosen[k] = _assign(_costs(pool, prompts, holders, len(pools), noise), fresh)
            opened = chosen[k] >= len(prompts)
            prompts = np.concatenate([prompts, pool[opened]])
        held, numbers = np.unique(np.concatenate(chosen), return_inverse=True)
        prompts = _means(pools, chosen, prompts)[held]
        chosen = np.split(numbers, np.cumsum([len(pool) for pool in pools])[:-1])
        if all(np.array_equal(a, b) for a, b in zip(chosen, previous, strict=True)):
            break
    return prompts


def _costs(
    pool: NDArray[np.floating],
    prompts: NDArray[np.float64],
    holders: NDArray[np.int64],
    clients: int,
    noise: float,
) -> NDArray[np.float64]:
    """Return the cost of each prompt of a client as each global one, (own, global).

    It is the negative log-likelihood less what is the same for all. A global prompt that no other
    client holds costs too much to be taken: the client's own new one explains as much.
    """
    log_odds = np.where(holders > 0, np.log(np.maximum(holders, 1) / (clients - holders)), -_NEVER)
    return np.asarray(cdist(pool, prompts, "sqeuclidean") / (2 * noise) - log_odds)


def _assign(costs: NDArray[np.float64], fresh: float) -> NDArray[np.int64]:
    """Return the global prompt of each prompt of a client; new ones have the numbers after."""
    own, known = costs.shape
    opening = np.full((own, own), _NEVER)
    np.fill_diagonal(opening, fresh)
    _, chosen = linear_sum_assignment(np.hstack([costs, opening]))
    new = chosen >= known
    chosen[new] = known + np.arange(new.sum())
    return np.asarray(chosen)


def _noise(
    pools: Sequence[NDArray[np.floating]],
    chosen: Sequence[NDArray[np.int64]],
    prompts: NDArray[np.float64],
) -> float:
    """Return the variance of the clients' prompts around their global ones, over all numbers."""
    squares = [
        np.square(pool - prompts[index]).mean() for pool, index in zip(pools, chosen, strict=True)
    ]
    return max(float(np.mean(squares)), _SMALLEST_VARIANCE)


def _means(
    pools: Sequence[NDArray[np.floating]],
    chosen: Sequence[NDArray[np.int64]],
    prompts: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return each global prompt as the mean of the clients' prompts that are it."""
    sums, counts = np.zeros_like(prompts), np.zeros(len(prompts))
    for pool, index in zip(pools, chosen, strict=True):
        sums[index] += pool
        counts[index] += 1
    return np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], prompts)
