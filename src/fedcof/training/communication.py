"""What training sends by the paper's formulas (appendix C): 4 bytes a number, both ways."""

from __future__ import annotations

from collections.abc import Sequence


def training_bytes(parameters: int, rounds: int, clients_per_round: int) -> int:
    """Return ``2 * parameters * T * s * 4``: each client of a round gets and sends a model.

    The parameters are E + dC in full fine-tuning, dC in linear probing, and dC + Pd in the prompt
    tuning of FedAvg-PT and FedProx-PT.
    """
    return 2 * parameters * rounds * clients_per_round * 4


def pfpt_bytes(head: int, dim: int, pool_sizes: Sequence[int], clients_per_round: int) -> int:
    """Return ``2 (dC T + d sum_i P_i) s * 4``, with the pool size P_i of each of the T rounds."""
    return training_bytes(head * len(pool_sizes) + dim * sum(pool_sizes), 1, clients_per_round)
