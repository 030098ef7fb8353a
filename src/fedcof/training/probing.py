"""Linear probing of many clients at once: the local updates as batched matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import log_softmax

from fedcof.training.exchange import Task, Update
from fedcof.training.local import Samples

_BLOCK_BYTES = 2**28


def probe_clients(
    clients: Mapping[str, Samples], task: Task, client_ids: Sequence[str]
) -> list[Update]:
    """Return what `update_clients` does for a linear head on features, several times faster.

    Every client has its own head; a step of all of them is a few products of tensors with the
    clients as first axis. The gradient of the cross-entropy is written out: softmax minus one-hot.

    Parameters
    ----------
    clients : mapping of str to Samples
        Their inputs are tensors of features, shape (n, dim).
    task : Task
        The state has ``head.weight`` (classes, dim) and, where the head has one, ``head.bias``
        (classes,); the optimizer is "sgd".
    client_ids : sequence of str

    Raises
    ------
    ValueError
        If the optimizer is another than sgd.
    """
    if task.settings.optimizer != "sgd":
        raise ValueError("clients are probed at once with sgd only; use update_clients")
    block = max(1, _BLOCK_BYTES // task.state["head.weight"].nbytes)
    blocks = [client_ids[i : i + block] for i in range(0, len(client_ids), block)]
    return [update for ids in blocks for update in _probe_block(clients, task, ids)]


def _probe_block(
    clients: Mapping[str, Samples], task: Task, client_ids: Sequence[str]
) -> list[Update]:
    settings = task.settings
    samples = [clients[client_id] for client_id in client_ids]
    plans = [
        list(task.batches(len(held), client_id))
        for held, client_id in zip(samples, client_ids, strict=True)
    ]
    start = {name: torch.from_numpy(array) for name, array in task.state.items()}
    heads = {name: value.repeat(len(samples), *[1] * value.ndim) for name, value in start.items()}
    losses, seen = torch.zeros(len(samples)), torch.zeros(len(samples))
    for step in range(max(map(len, plans))):
        active = [k for k, plan in enumerate(plans) if step < len(plan)]
        rows = [plans[k][step] for k in active]
        features, labels, mask = _stack([samples[k] for k in active], rows)
        # Where all clients take part, a view: the heads are then changed in place.
        whole = slice(None) if len(active) == len(samples) else active
        sizes = mask.sum(dim=1)
        logits = features @ heads["head.weight"][whole].mT
        if "head.bias" in heads:
            logits += heads["head.bias"][whole][:, None, :]
        log_probabilities = log_softmax(logits, dim=2)
        picked = log_probabilities.gather(2, labels[:, :, None])[:, :, 0]
        losses[whole] -= (picked * mask).sum(dim=1)
        seen[whole] += sizes
        error = log_probabilities.exp_()
        error.scatter_add_(2, labels[:, :, None], -torch.ones_like(error[:, :, :1]))
        error *= (mask / sizes[:, None])[:, :, None]
        gradients = {"head.weight": error.mT @ features, "head.bias": error.sum(dim=1)}
        for name, value in heads.items():
            gradient = gradients[name]
            if settings.proximal_mu:
                gradient = gradient + settings.proximal_mu * (value[whole] - start[name])
            value[whole] -= settings.client_lr * gradient
    return [
        Update(
            {name: value[k].numpy() for name, value in heads.items()},
            len(held),
            float(losses[k] / seen[k]),
        )
        for k, held in enumerate(samples)
    ]


def _stack(
    samples: Sequence[Samples], rows: Sequence[NDArray[np.int64]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return features (clients, batch, dim), labels and mask (clients, batch), padded with 0."""
    # In NumPy: torch would start its threads for each of these small copies.
    inputs = [np.asarray(held.inputs) for held in samples]
    shape = (len(samples), max(map(len, rows)))
    features = np.zeros((*shape, inputs[0].shape[1]), np.float32)
    labels = np.zeros(shape, np.int64)
    mask = np.zeros(shape, np.float32)
    for k, batch in enumerate(rows):
        features[k, : len(batch)] = inputs[k][batch]
        labels[k, : len(batch)] = samples[k].labels.numpy()[batch]
        mask[k, : len(batch)] = 1
    return torch.from_numpy(features), torch.from_numpy(labels), torch.from_numpy(mask)
