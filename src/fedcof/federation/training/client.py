"""What a SuperNode does with a task of training: its clients train on their own data."""

from __future__ import annotations

import json
import logging
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Error, Message
from numpy.typing import NDArray
from torch import nn

from fedcof.backbones import Preprocessing
from fedcof.backbones.torch_backbone import network
from fedcof.backbones.torch_engine import fast_on
from fedcof.data import Reading
from fedcof.errors import HeadError, SummaryError
from fedcof.federation.faults import CANNOT
from fedcof.federation.records import code_of
from fedcof.federation.sources import Site, enough_of, load_site
from fedcof.federation.training.exchange import CONFIG, to_answer, to_task
from fedcof.federation.training.inputs import as_inputs
from fedcof.privacy.policy import WITHHELD
from fedcof.training.classifier import Classifier, best_device
from fedcof.training.exchange import PROMPTS, Task, Update
from fedcof.training.heads import head_of
from fedcof.training.local import Samples, local_update
from fedcof.training.probing import probe_clients
from fedcof.training.prompts import PromptedViT
from fedcof.transforms import parse

_log = logging.getLogger(__name__)


def train(message: Message, context: Context) -> Message:
    """Return the reply to a train message.

    If the client cannot train, the server is sent a code; the log of this process has the text.
    """
    try:
        task, client_id = to_task(message.content)
        config: dict[str, Any] = dict(message.content.config_records[CONFIG])
        reading = Reading(**json.loads(config["reading"]))
        site = load_site(str(config["data"]), context, reading)
        site.policy.check_training(
            backbone=str(config["backbone"]), transform=parse(config["transform"])
        )
        site.check_not_dry()
        update = _update(task, client_id, site, config)
        return Message(to_answer(client_id, update), reply_to=message)
    except BaseException as error:  # as in `answering`
        _log.error("cannot train: %s", code_of(error), exc_info=error)
        return Message(Error(CANNOT, code_of(error)), reply_to=message)


def _update(task: Task, client_id: str, site: Site, config: dict[str, Any]) -> Update:
    """Train what the state holds: a head on features, or a network or prompts on images."""
    data, labels = enough_of(site.policy, *site.clients[client_id])
    name, head = (
        str(config["backbone"]),
        head_of(task.state, np.asarray(config["classes"]), parse(config["transform"])),
    )
    if task.state.keys() <= {"head.weight", "head.bias"}:
        model = Classifier(nn.Identity(), head.of_transformed)
        inputs, labels = as_inputs(data, labels, backbone=name, transform=head.transform)
    else:
        module, preprocessing, fingerprint = _network(name, PROMPTS in task.state)
        if fingerprint != config["network"]:
            raise SummaryError(
                "other-network",
                f"{name} has other weights or another preprocessing here than at the server; the "
                "same files are needed at both",
            )
        model = Classifier(module, head, preprocessing)
        fast_on(model, best_device())
        inputs, labels = as_inputs(data, labels, preprocessing=preprocessing)
    if len(site.policy.trained_on(labels)) < len(labels):
        raise SummaryError(WITHHELD, "a class has too few images that can be read")
    samples = Samples(inputs, _class_index(labels, head.classes))
    if isinstance(model.backbone, nn.Identity) and task.settings.optimizer == "sgd":
        [update] = probe_clients({client_id: samples}, task, [client_id])
        return update
    return local_update(model, samples, task, client_id)


def _class_index(labels: NDArray[Any], classes: NDArray[Any]) -> torch.Tensor:
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise HeadError(f"the head has no class {unknown[0].item()!r}")
    return torch.from_numpy(np.searchsorted(classes, labels))


@lru_cache(maxsize=1)  # the worker of a simulation trains one client after the other
def _network(name: str, prompted: bool) -> tuple[nn.Module, Preprocessing, str]:
    """Return the network to be trained, and its fingerprint before that."""
    backbone = network(name)
    # One prompt as a placeholder: the state that is set before training has the pool.
    module = PromptedViT(backbone, pool_size=1) if prompted else backbone.module
    return module, backbone.preprocessing, backbone.fingerprint
