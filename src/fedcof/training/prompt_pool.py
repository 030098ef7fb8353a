"""Probabilistic aggregation of prompt pools: which prompts of different clients are the same.

A client's prompts are a set: the third prompt of one client need not mean what the third of another
does, so averaging them position by position, as FedAvg does, mixes meanings. PFPT [1]_ takes every
client's pool as a draw from a generative model. A client holds the global prompt phi with
probability p(phi), and then its own is normal around phi with the standard deviations sigma(phi),
one a dimension. Both p and sigma are small networks of the prompt. At first every client's every
prompt is a global one. Then, client after client and many times over, the client's prompts are
matched with distinct global ones so that their likelihood is highest, which is a linear assignment
problem, and Adam takes a step on prompts and networks towards a higher likelihood.

A pool shrinks by the prompts that no client tuned, because none of its batches selected them (see
`fedcof.training.prompts.PromptedViT`): they are left out. It grows where clients drifted so far
apart that two prompts explain them better than one.

What differs from the code of the method [2]_:

- A client tuned a prompt if it came back with other numbers than it was sent with; in the
  simulation of [2]_ the clients' counters are at hand.
- The gain of matching is the log-odds of p, and what Adam raises is the likelihood of all that a
  client holds and does not hold, both as in the model. There, the gain is ``log p`` for what the
  client holds already and ``log(1 - p)`` for the rest, and only what it holds counts.
- Each client is matched before the first step, not after one from a random matching.
- The result is the mean of what was matched, the most likely prompt for any sigma. Where Adam left
  the prompts is as far from it as the small prompts of a new pool are from zero.

References
----------
.. [1] Weng et al., "Probabilistic Federated Prompt-Tuning with Non-IID and Imbalanced Data",
   NeurIPS 2024.
.. [2] https://github.com/hangpt01/Probabilistic_Prompt_Tuning, ``Algo``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

_HIDDEN = 128
_LEAST_LOG_SIGMA = -20.0


def aggregate_prompts(
    pools: Sequence[NDArray[np.floating]],
    start: NDArray[np.floating],
    *,
    seed: int | Sequence[int] = 0,
    sweeps: int = 50,
) -> NDArray[np.float64]:
    """Return the global prompts that explain the clients' pools.

    Parameters
    ----------
    pools : sequence of ndarray of float, each of shape (prompts, dim)
        One a client, in the order of their ids.
    start : ndarray of float, shape (prompts, dim)
        What was sent to the clients.
    seed : int or sequence of int, default 0
        Draws the networks.
    sweeps : int, default 50
        How often every client is matched.

    Returns
    -------
    ndarray of float64, shape (global prompts, dim)
        At least as many as were tuned by some client, at most those of every client; ``start``
        where nobody tuned any.
    """
    sent = np.stack(pools).astype(np.float64)
    tuned = sent[:, (sent != start).any(axis=(0, 2))]
    if not tuned.size:
        return np.asarray(start, dtype=np.float64)
    held = _match(torch.from_numpy(tuned), seed, sweeps)
    return np.stack([tuned[held == prompt].mean(axis=0) for prompt in np.unique(held)])


def _match(pools: Tensor, seed: int | Sequence[int], sweeps: int) -> NDArray[np.int64]:
    """Return the number of the global prompt that each prompt is, (clients, prompts)."""
    clients, size, dim = pools.shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        spread, presence = _network(dim, dim), _network(dim, 1)
    prompts = nn.Parameter(pools.reshape(-1, dim).clone())
    optimizer = torch.optim.Adam([prompts, *spread.parameters(), *presence.parameters()])
    held = np.empty((clients, size), dtype=np.int64)
    for _ in range(sweeps):
        for client, pool in enumerate(pools):
            # Of prompts of a client that diverged, the networks make a sigma that is 0 in float64.
            log_sigma = logsigmoid(spread(prompts)).clamp(min=_LEAST_LOG_SIGMA)
            log_odds = presence(prompts)[:, 0]
            with torch.no_grad():
                gains = _log_density(pool, prompts, log_sigma) + log_odds
            _, held[client] = linear_sum_assignment(gains, maximize=True)
            matched = torch.from_numpy(held[client])
            residuals = (pool - prompts[matched]) / log_sigma[matched].exp()
            log_likelihood = (
                log_odds[matched].sum()
                + logsigmoid(-log_odds).sum()
                - (residuals.square() / 2 + log_sigma[matched]).sum()
            )
            optimizer.zero_grad()
            torch.autograd.backward(-log_likelihood)
            optimizer.step()
    return held


def _network(dim: int, outputs: int) -> nn.Sequential:
    layers = nn.Linear(dim, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, outputs)
    return nn.Sequential(*layers).double()


def _log_density(pool: Tensor, prompts: Tensor, log_sigma: Tensor) -> Tensor:
    """Return the log-density of each prompt of a pool around each global one, up to a constant."""
    precision = torch.exp(-2 * log_sigma)
    squares = (
        pool.square() @ precision.T
        - 2 * pool @ (precision * prompts).T
        + (precision * prompts.square()).sum(dim=1)
    )
    return -squares / 2 - log_sigma.sum(dim=1)
