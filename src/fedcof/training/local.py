"""What a client does in a round: some epochs of gradient descent on its own samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedcof.training.exchange import State, Task, Update
from fedcof.training.settings import TrainingSettings

_EVALUATION_BATCH = 256


class Inputs(Protocol):
    """Samples that come in batches: a tensor, or images that are read when they are needed."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def __getitem__(self, rows: NDArray[np.int64], /) -> Tensor:
        """Return a batch."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Labelled samples of a client, or of a test set.

    Parameters
    ----------
    inputs : Inputs
        Features or images, n of them.
    labels : tensor of int64, shape (n,)
        Index into the head's classes.
    """

    inputs: Inputs
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are trained, by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def get_state(model: nn.Module) -> State:
    """Return a copy of the trained parameters."""
    return {
        name: parameter.detach().cpu().numpy().astype(np.float32)
        for name, parameter in trainable(model).items()
    }


def set_state(model: nn.Module, state: Mapping[str, NDArray[np.floating]]) -> None:
    """Copy parameters into the model."""
    with torch.no_grad():
        for name, parameter in trainable(model).items():
            value = torch.as_tensor(np.array(state[name]), dtype=parameter.dtype)
            if value.shape == parameter.shape:
                parameter.copy_(value)
            else:  # a pool of prompts may change its size
                parameter.data = value.to(parameter.device)


def local_update(model: nn.Module, samples: Samples, task: Task, client_id: str) -> Update:
    """Train a model on a client's samples.

    The model is in evaluation mode: no dropout, and normalisation layers keep the statistics that
    they came with. Averaged or adapted by the server, running variances could turn negative.

    Parameters
    ----------
    model : torch.nn.Module
        From inputs to logits; a scratch pad, whose trained parameters are overwritten.
    samples : Samples
    task : Task
    client_id : str

    Returns
    -------
    Update
        With NaN or infinity in it where the training diverged; the server refuses that.
    """
    set_state(model, task.state)
    model.eval()
    parameters = list(trainable(model).values())
    anchors = [parameter.detach().clone() for parameter in parameters]
    optimizer = _optimizer(parameters, task.settings)
    device = parameters[0].device
    total, seen = 0.0, 0
    for rows in task.batches(len(samples), client_id):
        logits = model(samples.inputs[rows].to(device))
        objective = loss = cross_entropy(logits, samples.labels[rows].to(device))
        if task.settings.proximal_mu:
            pairs = zip(parameters, anchors, strict=True)
            distance = torch.stack([(p - anchor).square().sum() for p, anchor in pairs]).sum()
            objective = loss + task.settings.proximal_mu / 2 * distance
        optimizer.zero_grad()
        torch.autograd.backward(objective)
        optimizer.step()
        total += float(loss.detach()) * len(rows)
        seen += len(rows)
    return Update(get_state(model), len(samples), total / seen)


def update_clients(
    model: nn.Module, clients: Mapping[str, Samples], task: Task, client_ids: Sequence[str]
) -> list[Update]:
    """Run `local_update` for one client after the other."""
    return [local_update(model, clients[client_id], task, client_id) for client_id in client_ids]


@torch.no_grad()
def outputs(
    model: nn.Module, inputs: Inputs, advance: Callable[[int], None] = lambda steps: None
) -> Iterator[NDArray[np.float32]]:
    """Yield what a model gives for inputs, batch by batch, in order."""
    model.eval()
    device = next(model.parameters()).device
    for rows in np.array_split(np.arange(len(inputs)), -(-len(inputs) // _EVALUATION_BATCH)):
        yield model(inputs[rows].to(device)).cpu().numpy()
        advance(len(rows))


def accuracy(model: nn.Module, samples: Samples, state: State) -> float:
    """Return the share of the samples that the model gets right, from 0 to 1."""
    set_state(model, state)
    predicted = np.concatenate([batch.argmax(axis=1) for batch in outputs(model, samples.inputs)])
    return float(np.mean(predicted == samples.labels.numpy()))


def _optimizer(
    parameters: Sequence[nn.Parameter], settings: TrainingSettings
) -> torch.optim.Optimizer:
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=settings.client_lr)
    return torch.optim.SGD(parameters, lr=settings.client_lr)
