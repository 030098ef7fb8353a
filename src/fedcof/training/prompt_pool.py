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
    stacked = np.concatenate(pools).astype(np.float64)
    spread = max(float(stacked.var(axis=0).mean()), _SMALLEST_VARIANCE)
    prompts = np.asarray(start, dtype=np.float64)
    assignments = [np.arange(len(pool)) for pool in pools]
    for _ in range(sweeps):
        noise = _noise(pools, assignments, prompts)
        previous, kept = assignments, prompts
        holders = np.bincount(np.concatenate(assignments), minlength=len(prompts)).astype(float)
        assignments = list(assignments)
        for k, pool in enumerate(pools):
            holders[assignments[k]] -= 1
            assignments[k], prompts, holders = _assign(
                pool, prompts, holders, noise, spread, len(pools), new_prompts
            )
            holders[assignments[k]] += 1
        prompts = _means(pools, assignments, prompts)
        unchanged = len(prompts) == len(kept) and all(
            np.array_equal(a, b) for a, b in zip(assignments, previous, strict=True)
        )
        if unchanged:
            break
    held = np.unique(np.concatenate(assignments))
    return prompts[held]


def _assign(
    pool: NDArray[np.floating],
    prompts: NDArray[np.float64],
    holders: NDArray[np.float64],
    noise: float,
    spread: float,
    clients: int,
    new_prompts: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the best global prompt of each prompt of one client, opening new ones where better.

    The cost is the negative log-likelihood, without what is the same for all.
    """
    dim = pool.shape[1]
    with np.errstate(divide="ignore"):
        log_odds = np.log(holders) - np.log(clients - holders)
    known = cdist(pool, prompts, "sqeuclidean") / (2 * noise) - log_odds
    # A new prompt has no noise around it yet, but the broad law of all prompts over it.
    fresh = dim / 2 * np.log(spread / noise) + np.log(clients / new_prompts)
    own = np.where(np.eye(len(pool), dtype=bool), fresh, np.inf)
    cost = np.hstack([np.where(np.isinf(known), 1e300, known), np.where(np.isinf(own), 1e300, own)])
    _, chosen = linear_sum_assignment(cost)
    opened = np.flatnonzero(chosen >= len(prompts))
    chosen[opened] = len(prompts) + np.arange(len(opened))
    return (
        chosen,
        np.concatenate([prompts, pool[opened]]),
        np.concatenate([holders, np.zeros(len(opened))]),
    )


def _noise(
    pools: Sequence[NDArray[np.floating]],
    assignments: Sequence[NDArray[np.int64]],
    prompts: NDArray[np.float64],
) -> float:
    """Return the variance of the clients' prompts around their global ones, over all numbers."""
    squares = [
        np.square(pool - prompts[chosen]).mean()
        for pool, chosen in zip(pools, assignments, strict=True)
    ]
    return max(float(np.mean(squares)), _SMALLEST_VARIANCE)


def _means(
    pools: Sequence[NDArray[np.floating]],
    assignments: Sequence[NDArray[np.int64]],
    prompts: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return each global prompt as the mean of the clients' prompts that are it."""
    sums, counts = np.zeros_like(prompts), np.zeros(len(prompts))
    for pool, chosen in zip(pools, assignments, strict=True):
        sums[chosen] += pool
        counts[chosen] += 1
    return np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], prompts)
