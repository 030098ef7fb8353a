"""A data set under a backbone, dealt to clients, and what several methods may share of the work.

What may be shared follows from the methods. What clients send with class means serves all methods
and shrinkages on one partition. What `Method.pool_samples` gives does not depend on the partition,
so one Gram matrix and one pooled scatter serve all partitions, seeds and regularisers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable
from functools import cached_property
from inspect import signature
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcof.backbones import transform_for
from fedcof.client import Sender
from fedcof.codings import AUTO
from fedcof.data import Dealing
from fedcof.experiments.evaluate import Collected, Dealt, collect
from fedcof.experiments.features import FeatureSet
from fedcof.experiments.results import Histogram
from fedcof.heads import Head
from fedcof.methods import FedCOF, Method
from fedcof.scatter import ClassStatistics, condition_number
from fedcof.summaries import Summary, ordered
from fedcof.transforms import NO_TRANSFORM, Transform, chain

_SHOWN_CLIENTS = 20

T = TypeVar("T")


class Traffic(NamedTuple):
    """What the clients send: bytes by the paper's formula and on the wire, and means (M)."""

    formula_bytes: int
    wire_bytes: int
    num_means: int


class Pooled(NamedTuple):
    """What a head depends on, and what it took.

    Parameters
    ----------
    content : object
        As `Method.pool` gives it.
    traffic : Traffic
    client_seconds : float
        The processor's time of a client on average. Where the statistic does not depend on who
        holds what, it is made once of all samples, and this is a client's share of that.
    server_seconds : float
        The processor's time from the decoded summaries to the content; 0 where it is made at once.
    """

    content: Any
    traffic: Traffic
    client_seconds: float
    server_seconds: float


class Source:
    """A data set under a backbone, and what does not depend on how it is dealt."""

    def __init__(self, data: FeatureSet, backbone: str = "") -> None:
        self.data = data
        self.backbone = backbone
        self.made: dict[Hashable, Any] = {}

    def features(
        self, transform: Transform, part: Literal["train", "test"]
    ) -> NDArray[np.floating[Any]]:
        """Return the transformed features of the training or of the test set."""
        raw: NDArray[np.floating[Any]] = getattr(self.data, part).features
        if transform == NO_TRANSFORM:
            return raw
        return _once(self.made, (part, str(transform)), lambda: transform(raw))

    def pooled(self, sender: Sender) -> tuple[Any | None, float]:
        """Return what a method's head depends on, None where that depends on the partition.

        And the processor's seconds that it took.
        """
        method = sender.method
        if type(method).pool_samples is Method.pool_samples:
            return None, 0.0
        train, labels = self.features(sender.transform, "train"), self.data.train.labels
        pooled: tuple[Any | None, float] = _once(
            self.made,
            (
                type(method).pool_samples,
                str(sender.transform),
                *sorted(method.client_settings.items()),
            ),
            lambda: _timed(lambda: method.pool_samples(train, labels)),
        )
        return pooled

    def conditions(self) -> dict[str, float]:
        """Return the condition numbers of the scatters of the samples, without shrinkage."""

        def measure() -> dict[str, float]:
            train = self.data.train
            scatter = ClassStatistics.of_samples(train.features, train.labels).scatter()
            return {
                "condition_within": condition_number(scatter.within(0.0)),
                "condition_between": condition_number(scatter.between()),
            }

        conditions: dict[str, float] = _once(self.made, "conditions", measure)
        return conditions


class Clients:
    """A source dealt to clients with a seed, and what they send.

    Parameters
    ----------
    source : Source
    dealing : Dealing
    seed : int
        Of the partition, and of all that clients and servers draw.
    """

    def __init__(self, source: Source, dealing: Dealing, seed: int) -> None:
        train, test = source.data.train, source.data.test
        partition = dealing.deal(train.labels, train.columns, seed)
        self.dealt = Dealt(train.features, train.labels, partition, test.features, test.labels)
        self.source = source
        self.seed = seed
        self._made: dict[Hashable, Any] = {}

    def histogram(self) -> Histogram:
        """Return the samples that the first clients hold of every class, by the classes' names."""
        first = islice(((client_id, labels) for client_id, _, labels in self.dealt), _SHOWN_CLIENTS)
        classes = self.source.data.train.classes
        return {
            client_id: {classes[label]: count for label, count in Counter(labels.tolist()).items()}
            for client_id, labels in first
        }

    def sender(
        self, method: Method[Any], *, transform: str = str(NO_TRANSFORM), coding: str = AUTO
    ) -> Sender:
        """Return how the clients send for a method, which may plan a lift for them.

        Parameters
        ----------
        method : Method
        transform : str, default "none"
            Steps as `fedcof.transforms.parse` takes them; "auto" among them is what the backbone of
            the source declares.
        coding : str, default "auto"
            As `fedcof.client.Sender` takes it.
        """
        steps = (transform_for(step, self.source.backbone) for step in transform.split("+"))
        return self.dealt.planned(Sender(method, self.seed, coding, chain(*steps)))

    @cached_property
    def fedcof_bytes(self) -> int:
        """What all clients send for FedCOF with one mean a class, on the wire in float32."""
        return expected_traffic(Sender(FedCOF()), self.dealt).wire_bytes

    def collected(self, sender: Sender) -> Collected:
        """Return what the clients send."""
        collected: Collected = _once(
            self._made, _client_side(sender), lambda: collect(sender, self.dealt)
        )
        return collected

    def pooled(self, sender: Sender) -> Pooled:
        """Return what a method's head depends on, and what it took to send."""
        method = sender.method
        content, seconds = self.source.pooled(sender)
        if content is not None:
            clients = sum(len(rows) > 0 for _, rows in self.dealt.partition)
            return Pooled(content, expected_traffic(sender, self.dealt), seconds / clients, 0.0)
        collected = self.collected(sender)
        content, seconds = _once(
            self._made,
            (type(method), *_client_side(sender)),
            lambda: _timed(lambda: method.pool(ordered(collected.summaries, Summary))),
        )
        return Pooled(content, traffic_of(collected), collected.client_seconds, seconds)

    def solved(self, sender: Sender, pooled: Pooled) -> tuple[Head, float]:
        """Return the head from what was pooled, and the processor's seconds that it took.

        One head serves all partitions where what is pooled does not depend on them.
        """
        shared = self.source.pooled(sender)[0] is pooled.content
        solved: tuple[Head, float] = _once(
            self.source.made if shared else self._made,
            ("head", sender.method, sender.coding, str(sender.transform)),
            lambda: _timed(lambda: sender.method.fit(pooled.content)),
        )
        return solved


def traffic_of(collected: Collected) -> Traffic:
    """Return the traffic of what was sent."""
    means = sum(len(summary.counts) for summary in collected.summaries)
    return Traffic(collected.formula_bytes, collected.wire_bytes, means)


def expected_traffic(sender: Sender, dealt: Dealt) -> Traffic:
    """Return what clients with one row a class would send, from the shapes alone."""
    formula_bytes = wire_bytes = num_means = 0
    for client_id, features, labels in dealt:
        classes = np.unique(labels)
        formula, wire = sender.expected_bytes(
            classes,
            features.shape[1],
            samples=len(features),
            client_id=client_id,
            origin=dealt.origin,
        )
        formula_bytes += formula
        wire_bytes += wire
        num_means += len(classes)
    return Traffic(formula_bytes, wire_bytes, num_means)


def _client_side(sender: Sender) -> tuple[Hashable, ...]:
    """Return a key that is equal for two methods whose clients send the same.

    A setting that a method does not have is the default of the summary's ``summarize``.
    """
    method = sender.method
    parameters = signature(method.summary_type.summarize).parameters.values()
    defaults = {
        known.name: known.default for known in parameters if known.default is not known.empty
    }
    settings = tuple(sorted((defaults | method.client_settings).items()))
    sending = sender.coding, str(sender.transform)
    return type(method).summarize, method.summary_type, *sending, settings


def _timed(make: Callable[[], T]) -> tuple[T, float]:
    """Return what is made, and the processor's seconds that it took."""
    start = time.process_time()
    return make(), time.process_time() - start


def _once(made: dict[Hashable, Any], name: Hashable, make: Callable[[], T]) -> T:
    if name not in made:
        made[name] = make()
    result: T = made[name]
    return result
