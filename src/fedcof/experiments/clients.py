"""A data set under a backbone, dealt to clients, and what several methods may share of the work.

What may be shared follows from the methods. What clients send with class means serves all methods
and shrinkages on one partition. What `Method.pool_samples` gives does not depend on the partition,
so one Gram matrix and one pooled scatter serve all partitions, seeds and regularisers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from inspect import signature
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fedcof.client import Sender
from fedcof.data import Dealing
from fedcof.experiments.evaluate import Collected, Dealt, collect
from fedcof.experiments.features import FeatureSet
from fedcof.experiments.results import Histogram
from fedcof.methods import Method
from fedcof.scatter import ClassStatistics, condition_number
from fedcof.summaries import Summary, ordered

_SHOWN_CLIENTS = 20

T = TypeVar("T")


class Traffic(NamedTuple):
    """What the clients send: bytes by the paper's formula and on the wire, and means (M)."""

    formula_bytes: int
    wire_bytes: int
    num_means: int


class Source:
    """A data set under a backbone, and what does not depend on how it is dealt."""

    def __init__(self, data: FeatureSet, backbone: str = "") -> None:
        self.data = data
        self.backbone = backbone
        self._made: dict[Hashable, Any] = {}

    def pooled(self, method: Method[Any]) -> Any | None:
        """Return what a method's head depends on; None where that depends on the partition."""
        train = self.data.train
        return _once(
            self._made,
            (type(method).pool_samples, *sorted(method.client_settings.items())),
            lambda: method.pool_samples(train.features, train.labels),
        )

    def conditions(self) -> dict[str, float]:
        """Return the condition numbers of the scatters of the samples, without shrinkage."""

        def measure() -> dict[str, float]:
            train = self.data.train
            scatter = ClassStatistics.of_samples(train.features, train.labels).scatter()
            return {
                "condition_within": condition_number(scatter.within(0.0)),
                "condition_between": condition_number(scatter.between()),
            }

        conditions: dict[str, float] = _once(self._made, "conditions", measure)
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

    def collected(self, method: Method[Any]) -> Collected:
        """Return what the clients send for a method."""
        collected: Collected = _once(
            self._made,
            _client_side(method),
            lambda: collect(Sender(method, self.seed), self.dealt),
        )
        return collected

    def pooled(self, method: Method[Any]) -> tuple[Any, Traffic]:
        """Return what a method's head depends on, and what it took to send."""
        pooled = self.source.pooled(method)
        if pooled is not None:
            return pooled, expected_traffic(method, self.dealt)
        collected = self.collected(method)
        pooled = _once(
            self._made,
            (type(method).pool, *_client_side(method)),
            lambda: method.pool(ordered(collected.summaries, Summary)),
        )
        return pooled, traffic_of(collected)


def traffic_of(collected: Collected) -> Traffic:
    """Return the traffic of what was sent."""
    means = sum(len(summary.counts) for summary in collected.summaries)
    return Traffic(collected.formula_bytes, collected.wire_bytes, means)


def expected_traffic(method: Method[Any], dealt: Dealt) -> Traffic:
    """Return what clients with one row a class would send, from the shapes alone."""
    sender = Sender(method)
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


def _client_side(method: Method[Any]) -> tuple[Hashable, ...]:
    """Return a key that is equal for two methods whose clients send the same.

    A setting that a method does not have is the default of the summary's ``summarize``.
    """
    parameters = signature(method.summary_type.summarize).parameters.values()
    defaults = {
        known.name: known.default for known in parameters if known.default is not known.empty
    }
    settings = tuple(sorted((defaults | method.client_settings).items()))
    return type(method).summarize, method.summary_type, settings


def _once(made: dict[Hashable, Any], name: Hashable, make: Callable[[], T]) -> T:
    if name not in made:
        made[name] = make()
    result: T = made[name]
    return result
