"""What a SuperNode does with a task of training: its clients train on their own data."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Error, Message
from numpy.typing import NDArray
from torch import nn

from fedcof.errors import HeadError
from fedcof.federation.records import code_of
from fedcof.federation.sources import as_features, load_clients
from fedcof.federation.training_messages import CONFIG, PROMPTS, answer, task_of
from fedcof.training.local import Inputs, Samples, Task, Update, local_update
from fedcof.training.models import Classifier, Images, TorchBackbone, head_of, network
from fedcof.training.probing import probe_clients
from fedcof.training.prompts import PromptedViT

_log = logging.getLogger(__name__)

FAILED = 100
"""The code of the error that stands for a client whose training failed."""


def train(message: Message, context: Context) -> Message:
    """Return the reply to a train message.

    What went wrong is told in full in this process's log, and to the server in a code only.
    """
    try:
        task, client_id = task_of(message)
        config: dict[str, Any] = dict(message.content.config_records[CONFIG])
        source = str(context.node_config.get("data", config["data"]))
        data, labels = load_clients(source, context)[client_id]
        update = _update(task, client_id, data, labels, config)
        return answer(message, client_id, update)
    except (Exception, SystemExit) as error:
        _log.error("cannot train: %s", code_of(error), exc_info=error)
        return Message(Error(FAILED, code_of(error)), reply_to=message)


def _update(task: Task, client_id: str, data: Any, labels: Any, config: dict[str, Any]) -> Update:
    """Train what the state holds: a head on features, or a network or prompts on images."""
    name, classes = str(config["backbone"]), np.asarray(config["classes"])
    if task.state.keys() <= {"head.weight", "head.bias"}:
        features, labels = as_features(data, labels, name)
        inputs: Inputs = torch.from_numpy(np.ascontiguousarray(features, np.float32))
        model: nn.Module = nn.Identity()
    else:
        backbone = _network(name)
        inputs, model = Images(data, backbone.preprocessing), backbone.module
        if PROMPTS in task.state:
            model = PromptedViT(backbone, pool_size=len(task.state[PROMPTS]))
    samples = Samples(inputs, _class_index(np.asarray(labels), classes))
    if isinstance(model, nn.Identity) and task.settings.optimizer == "sgd":
        [update] = probe_clients({client_id: samples}, task, [client_id])
        return update
    return local_update(Classifier(model, head_of(task.state, classes)), samples, task, client_id)


def _class_index(labels: NDArray[Any], classes: NDArray[Any]) -> torch.Tensor:
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise HeadError(f"the head has no class {unknown[0].item()!r}")
    return torch.from_numpy(np.searchsorted(classes, labels))


@lru_cache(maxsize=1)  # a simulation's worker trains one client after the other
def _network(name: str) -> TorchBackbone:
    return network(name)
