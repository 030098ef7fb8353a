"""A head trained further in one process: training-free rounds, then rounds of training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcof.client import Sender
from fedcof.data import FeatureTable, ImageSet, Partition
from fedcof.experiments.evaluate import Dealt, collect
from fedcof.experiments.participation import participate
from fedcof.heads import LinearHead, linear
from fedcof.summaries import ClassMeans, Summary, merge

if TYPE_CHECKING:
    from torch import nn

    from fedcof.backbones.torch_backbone import TorchBackbone
    from fedcof.training import Round, TrainingSettings
    from fedcof.training.exchange import State
    from fedcof.training.local import Samples
    from fedcof.training.settings import Precision


def training_free_rounds(
    sender: Sender,
    dealt: Dealt,
    settings: TrainingSettings,
    *,
    on_round: Callable[[Round], None] = lambda _: None,
) -> tuple[LinearHead, list[Round], list[Summary]]:
    """Let clients appear round by round and send once, until all were seen (section 4.3).

    Parameters
    ----------
    sender : Sender
    dealt : Dealt
    settings : TrainingSettings
        For its participation and its seed.
    on_round : callable
        Called after every round.

    Returns
    -------
    head : LinearHead
        From all clients.
    rounds : list of Round
    summaries : list of Summary
        What the clients sent.
    """
    collected = collect(sender, dealt)
    head, rounds = participate(
        sender.method,
        collected,
        dealt,
        participation=settings.participation,
        seed=settings.seed,
        on_round=on_round,
    )
    return linear(head), rounds, collected.summaries


def deal_features(
    train: ImageSet,
    test: ImageSet,
    partition: Partition,
    backbone: TorchBackbone,
    *,
    device: str = "cpu",
    advance: Callable[[int], None] = lambda steps: None,
) -> Dealt:
    """Return the features of images under a backbone in torch, dealt to clients.

    Raises
    ------
    UnreadableImageError
        If an image cannot be read.
    """
    from fedcof.backbones import Backbone
    from fedcof.backbones.torch_engine import TorchEngine
    from fedcof.data import extract_features

    engine = TorchEngine(backbone.module, backbone.preprocessing, device=device)
    network = Backbone(engine, backbone.preprocessing, fingerprint=backbone.fingerprint)

    def extract(images: ImageSet) -> NDArray[np.float32]:
        return extract_features(images.images, network, strict=True, advance=advance).features

    return Dealt(
        extract(train), train.labels, partition, extract(test), test.labels, backbone.origin
    )


@dataclass(frozen=True, eq=False)
class Federation:
    """A model, and the clients and the test set that it is trained and measured on.

    Parameters
    ----------
    model : torch.nn.Module
        From inputs to logits.
    clients : dict of str to Samples
    test : Samples
    at_once : bool
        Whether the clients are probed at once.
    """

    model: nn.Module
    clients: dict[str, Samples]
    test: Samples
    at_once: bool

    def train(self, settings: TrainingSettings, **options: Any) -> tuple[State, list[Round]]:
        """Train in this process; the options go to `fedcof.training.train`."""
        from fedcof.training import train
        from fedcof.training.exchange import in_process
        from fedcof.training.local import accuracy, get_state, update_clients
        from fedcof.training.probing import probe_clients

        update = (
            partial(probe_clients, self.clients)
            if self.at_once and settings.optimizer == "sgd"
            else partial(update_clients, self.model, self.clients)
        )
        return train(
            in_process(update),
            self.clients.keys(),
            get_state(self.model),
            settings,
            partial(accuracy, self.model, self.test),
            **options,
        )


def probing(dealt: Dealt, head: LinearHead) -> Federation:
    """Return clients that train a head on their features.

    Raises
    ------
    HeadError
        If the head does not fit the features or the labels.
    """
    import torch

    from fedcof.training.classifier import Classifier
    from fedcof.training.heads import check_head
    from fedcof.training.local import Samples

    check_head(head, dealt.features.shape[1], np.concatenate([dealt.labels, dealt.test_labels]))

    def samples(features: NDArray[Any], labels: NDArray[Any]) -> Samples:
        index = np.searchsorted(head.classes, labels)
        return Samples(
            torch.from_numpy(np.ascontiguousarray(head.transform(features), np.float32)),
            torch.from_numpy(index),
        )

    return Federation(
        model=Classifier(torch.nn.Identity(), head.of_transformed),
        clients={client_id: samples(x, y) for client_id, x, y in dealt},
        test=samples(dealt.test_features, dealt.test_labels),
        at_once=True,
    )


def on_images(
    train: ImageSet,
    test: ImageSet,
    partition: Partition,
    backbone: TorchBackbone,
    head: LinearHead,
    *,
    pool_size: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    precision: Precision = "float32",
    advance: Callable[[int], None] = lambda steps: None,
) -> Federation:
    """Return clients that train on their images: all of the network, or prompts and head.

    Parameters
    ----------
    train, test : ImageSet
    partition : Partition
        Of the images to train on.
    backbone, head, pool_size, seed
        As for `fedcof.training.trained.classifier`.
    device : str, default "cpu"
        Where torch computes.
    precision : {"float32", "bf16"}
        Of the products.
    advance : callable
        Called with the number of images decoded since the last call.

    Raises
    ------
    HeadError
        If the head does not fit the backbone or the labels.
    """
    import torch

    from fedcof.backbones.torch_engine import fast_on
    from fedcof.training.batches import Images
    from fedcof.training.heads import check_head
    from fedcof.training.local import Samples
    from fedcof.training.trained import classifier

    check_head(head, backbone.dim, np.concatenate([train.labels, test.labels]))

    def samples(images: ImageSet) -> Samples:
        index = np.searchsorted(head.classes, images.labels)
        decoded = Images(images.images, backbone.preprocessing, advance=advance)
        return Samples(decoded, torch.from_numpy(index))

    model = classifier(backbone, head, pool_size=pool_size, seed=seed, precision=precision)
    fast_on(model, device)
    everything = samples(train)
    return Federation(
        model=model,
        clients={name: everything.subset(rows) for name, rows in partition if len(rows)},
        test=samples(test),
        at_once=False,
    )


def subset(
    images: ImageSet | FeatureTable, classes: int, per_class: int, *, seed: int
) -> ImageSet | FeatureTable:
    """Return the first classes of a set, and of each at most so many images, drawn at random."""
    rng = np.random.default_rng(seed)
    of_class = (rng.permutation(np.flatnonzero(images.labels == c)) for c in range(classes))
    return images.subset(np.sort(np.concatenate([rows[:per_class] for rows in of_class])))


def with_temperature(head: LinearHead, summaries: Sequence[Summary]) -> LinearHead:
    """Return a head at the scale that fits the clients' means.

    Raises
    ------
    ValueError
        If the clients sent no means.
    """
    from fedcof.training import fit_temperature, scale

    means = [summary for summary in summaries if isinstance(summary, ClassMeans)]
    if not means:
        raise ValueError("the temperature is fitted on class means; this method sends none")
    factor = fit_temperature(head, merge(means))
    provenance = head.provenance and replace(
        head.provenance, hyperparameters={**head.provenance.hyperparameters, "temperature": factor}
    )
    return replace(scale(head, factor), provenance=provenance)
