"""What a client does in a round: some epochs of gradient descent on its own samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedcof.backbones.torch_engine import on_device, on_host
from fedcof.training.batches import Images, Inputs
from fedcof.training.exchange import State, Task, Update
from fedcof.training.settings import TrainingSettings

_EVALUATION_BATCH = 256
_HELD_BYTES = 2**30
"""Of what the clients of a round trained, held on the device; more is copied in between."""


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

    def subset(self, rows: NDArray[np.int64]) -> Samples:
        """Return some of the samples, in this order; images are not decoded again."""
        inputs = self.inputs.subset(rows) if isinstance(self.inputs, Images) else self.inputs[rows]
        return Samples(inputs, self.labels[rows])


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are trained, by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def get_state(model: nn.Module) -> State:
    """Return a copy of the trained parameters."""
    return {
        name: parameter.detach().cpu().numpy().astype(np.float32)
        for name, parameter in trainable(model).items()
    }


def set_state(model: nn.Module, state: Mapping[str, NDArray[np.floating] | Tensor]) -> None:
    """Copy parameters into the model."""
    with torch.no_grad():
        for name, parameter in trainable(model).items():
            value = state[name]
            if not isinstance(value, Tensor):
                value = torch.as_tensor(np.array(value), dtype=parameter.dtype)
            if value.shape == parameter.shape:
                parameter.copy_(value)
            else:  # a pool of prompts may change its size
                parameter.data = value.to(parameter.device)


def local_update(model: nn.Module, samples: Samples, task: Task, client_id: str) -> Update:
    """Train a model on a client's samples, as `update_clients` does."""
    [update] = update_clients(model, {client_id: samples}, task, [client_id])
    return update


def update_clients(
    model: nn.Module, clients: Mapping[str, Samples], task: Task, client_ids: Sequence[str]
) -> list[Update]:
    """Train a model on the samples of one client after the other.

    The model is in evaluation mode: no dropout, and normalisation layers keep the statistics that
    they came with. Averaged or adapted by the server, running variances could turn negative.

    The device is never waited for within a round: batches are read ahead over all its clients, and
    what they trained stays on the device until its end.

    Parameters
    ----------
    model : torch.nn.Module
        From inputs to logits; a scratch pad, whose trained parameters are overwritten.
    clients : mapping of str to Samples
    task : Task
    client_ids : sequence of str

    Returns
    -------
    list of Update
        In the order of the ids. With NaN or infinity where the training diverged; the server
        refuses that.
    """
    model.eval()
    set_state(model, task.state)
    start = {name: value.detach().clone() for name, value in trainable(model).items()}
    device = next(iter(start.values())).device
    plans = [list(task.batches(len(clients[name]), name)) for name in client_ids]
    batches = (
        (clients[name].inputs[rows], clients[name].labels[rows])
        for name, plan in zip(client_ids, plans, strict=True)
        for rows in plan
    )
    trained = _Trained(start)
    with closing(on_device(batches, device)) as waiting:
        for plan in plans:
            set_state(model, start)
            loss = _descend(model, islice(waiting, len(plan)), start, task.settings)
            trained.add(model, loss)
    sizes = [len(clients[name]) for name in client_ids]
    return [
        Update(state, size, loss)
        for (state, loss), size in zip(trained.on_host(), sizes, strict=True)
    ]


def _descend(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, ...]],
    start: Mapping[str, Tensor],
    settings: TrainingSettings,
) -> Tensor:
    """Take a step for each batch; return the mean loss over all samples, where the model is."""
    parameters = list(trainable(model).values())
    optimizer = _optimizer(parameters, settings)
    total, seen = torch.zeros((), device=parameters[0].device), 0
    for inputs, labels in batches:
        objective = loss = cross_entropy(model(inputs), labels)
        if settings.proximal_mu:
            pairs = zip(parameters, start.values(), strict=True)
            distance = torch.stack([(p - anchor).square().sum() for p, anchor in pairs]).sum()
            objective = loss + settings.proximal_mu / 2 * distance
        optimizer.zero_grad()
        torch.autograd.backward(objective)
        optimizer.step()
        total += loss.detach() * len(labels)
        seen += len(labels)
    return total / seen


class _Trained:
    """What the clients of a round trained: a row of numbers each, on the device until the end.

    Parameters
    ----------
    start : mapping of str to tensor
        The names, the order and the shapes of the parameters.
    """

    def __init__(self, start: Mapping[str, Tensor]) -> None:
        self._shapes = {name: tuple(value.shape) for name, value in start.items()}
        length = sum(value.numel() for value in start.values()) + 1
        self._most = max(1, _HELD_BYTES // (4 * length))
        self._rows: list[Tensor] = []
        self._copied: list[NDArray[np.float32]] = []

    def add(self, model: nn.Module, loss: Tensor) -> None:
        """Take over the trained parameters of a model, and the loss."""
        parts = [value.detach().flatten() for value in trainable(model).values()]
        self._rows.append(torch.cat([*parts, loss[None]]))
        if len(self._rows) == self._most:
            self._copy()

    def on_host(self) -> Iterator[tuple[State, float]]:
        """Yield state and loss of each client."""
        self._copy()
        ends = np.cumsum([math.prod(shape) for shape in self._shapes.values()])
        for row in self._copied:
            *parts, loss = np.split(row, ends)
            state = {
                name: part.reshape(shape)
                for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
            }
            yield state, float(loss[0])

    def _copy(self) -> None:
        if self._rows:
            self._copied += list(torch.stack(self._rows).cpu().numpy())
            self._rows = []


def batches_of(inputs: Inputs) -> list[NDArray[np.int64]]:
    """Return the rows of inputs in batches for a model that is not trained."""
    return np.array_split(np.arange(len(inputs)), -(-len(inputs) // _EVALUATION_BATCH))


@torch.no_grad()
def outputs(
    model: nn.Module, inputs: Inputs, advance: Callable[[int], None] = lambda steps: None
) -> Iterator[NDArray[np.float32]]:
    """Yield what a model gives for inputs, batch by batch, in order."""
    model.eval()
    device = next(model.parameters()).device
    with closing(on_device(((inputs[rows],) for rows in batches_of(inputs)), device)) as waiting:
        for found in on_host(model(batch) for (batch,) in waiting):
            yield found
            advance(len(found))


@torch.no_grad()
def accuracy(model: nn.Module, samples: Samples, state: State) -> float:
    """Return the share of the samples that the model gets right, from 0 to 1."""
    set_state(model, state)
    model.eval()
    device = next(model.parameters()).device
    right = torch.zeros((), dtype=torch.int64, device=device)
    batches = ((samples.inputs[rows], samples.labels[rows]) for rows in batches_of(samples.inputs))
    with closing(on_device(batches, device)) as waiting:
        for inputs, labels in waiting:
            right += (model(inputs).argmax(dim=1) == labels).sum()
    return int(right) / len(samples)


def _optimizer(
    parameters: Sequence[nn.Parameter], settings: TrainingSettings
) -> torch.optim.Optimizer:
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=settings.client_lr)
    return torch.optim.SGD(parameters, lr=settings.client_lr)
