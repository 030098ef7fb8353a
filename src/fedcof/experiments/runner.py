"""Run an experiment: every setting with every seed, nothing computed twice.

What may be shared follows from the methods. What clients send with class means serves all methods
and shrinkages on one partition. What `Method.pool_samples` gives does not depend on the partition,
so one Gram matrix and one pooled scatter serve all partitions, seeds and regularisers.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy
import sklearn

import fedcof
from fedcof.client import Sender
from fedcof.data import Dealing
from fedcof.errors import FedCOFError, NotRunError, SingularScatterWarning
from fedcof.experiments.evaluate import Collected, Dealt, collect
from fedcof.experiments.experiment import Experiment, Noise, Setting
from fedcof.experiments.features import FeatureSet
from fedcof.experiments.participation import participate
from fedcof.experiments.results import Histogram, Results, Row, Skipped, partition_name
from fedcof.experiments.training_paper import TrainingSetting
from fedcof.heads import LinearHead
from fedcof.methods import Method
from fedcof.progress import Advance, progress_bar
from fedcof.scatter import ClassStatistics, condition_number
from fedcof.summaries import Summary, ordered
from fedcof.training import Round

VERSIONS = {
    "fedcof": fedcof.__version__,
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__,
}

_SHOWN_CLIENTS = 20


class Traffic(NamedTuple):
    """What the clients send: bytes by the paper's formula and on the wire, and means (M)."""

    formula_bytes: int
    wire_bytes: int
    num_means: int


class _Source:
    """A data set under a backbone, and what does not depend on how it is dealt."""

    def __init__(self, data: FeatureSet) -> None:
        self.data = data
        self._pooled: dict[Hashable, Any] = {}

    def pooled(self, method: Method[Any]) -> Any | None:
        """Return what the head depends on; None where that depends on the partition."""
        train = self.data.train
        how = (type(method).pool_samples, method.summary_type)
        return _once(self._pooled, how, lambda: method.pool_samples(train.features, train.labels))

    def conditions(self) -> dict[str, float]:
        """Return the condition numbers of the scatters of the samples, without shrinkage."""

        def measure() -> dict[str, float]:
            scatter = ClassStatistics.of_samples(*self.data.train[:2]).scatter()
            return {
                "condition_within": condition_number(scatter.within(0.0)),
                "condition_between": condition_number(scatter.between()),
            }

        conditions: dict[str, float] = _once(self._pooled, "conditions", measure)
        return conditions


class _Federation:
    """A source that is dealt to clients, and what they send."""

    def __init__(self, source: _Source, dealing: Dealing, seed: int) -> None:
        train, test = source.data.train, source.data.test
        partition = dealing.deal(train.labels, train.columns, seed)
        self.dealt = Dealt(train.features, train.labels, partition, test.features, test.labels)
        self.source = source
        self.seed = seed
        self._sent: dict[Hashable, Collected] = {}
        self._pooled: dict[Hashable, Any] = {}

    def histogram(self) -> Histogram:
        """Return the class counts of the first clients."""
        first = islice(((client_id, labels) for client_id, _, labels in self.dealt), _SHOWN_CLIENTS)
        return {
            client_id: {str(label): count for label, count in Counter(labels.tolist()).items()}
            for client_id, labels in first
        }

    def measure(
        self, experiment: Experiment, setting: Setting | TrainingSetting, **training: Any
    ) -> Row:
        """Return the measured columns of a row; the options are those of training."""
        start = time.perf_counter()
        if isinstance(setting, TrainingSetting):
            images = self.source.data.images
            measured = setting.measure(self.dealt, images, seed=self.seed, **training)
            return measured | self._circumstances(start)
        method = setting.method.seeded(self.seed)
        if experiment.measure == "participation":
            sent = self.sent(method, setting.noise)
            rounds = participate(method, self.dealt, sent.summaries, seed=self.seed)
            measured = {"accuracy": rounds[-1].accuracy, "rounds": list(map(asdict, rounds))}
            traffic = traffic_of(sent)
        else:
            pooled, traffic = self.pooled(method, setting.noise)
            measured = self._score(method.fit(pooled), experiment.metrics)
        means_received = traffic.num_means / len(np.unique(self.dealt.labels))
        measured |= {**traffic._asdict(), "means_received": means_received}
        return measured | self._circumstances(start)

    def _circumstances(self, start: float) -> Row:
        return {
            "clients_seen": sum(len(rows) > 0 for _, rows in self.dealt.partition),
            "samples": len(self.dealt.features),
            "dim": self.dealt.features.shape[1],
            "seconds": time.perf_counter() - start,
            "fingerprint": self.source.data.fingerprint,
            "versions": VERSIONS,
        }

    def sent(self, method: Method[Any], noise: Noise | None) -> Collected:
        """Return what the clients send."""
        if noise is not None:
            raise NotRunError("this experiment waits for noise on counts, which is not there yet")
        return _once(
            self._sent,
            _what_is_sent(method),
            lambda: collect(method, self.dealt, seed=self.seed),
        )

    def pooled(self, method: Method[Any], noise: Noise | None) -> tuple[Any, Traffic]:
        """Return what the head depends on, and what it took to send."""
        pooled = self.source.pooled(method)
        if pooled is not None:
            return pooled, expected_traffic(method, self.dealt)
        sent = self.sent(method, noise)
        how = (type(method).pool, _what_is_sent(method))
        pooled = _once(self._pooled, how, lambda: method.pool(ordered(sent.summaries, Summary)))
        return pooled, traffic_of(sent)

    def _score(self, head: LinearHead, metrics: tuple[str, ...]) -> Row:
        scores: Row = {"accuracy": head.score(self.dealt.test_features, self.dealt.test_labels)}
        if "train_accuracy" in metrics:
            scores["train_accuracy"] = head.score(self.dealt.features, self.dealt.labels)
        if "condition_within" in metrics:
            scores |= self.source.conditions()
        return scores


T = TypeVar("T")


def _once(cache: dict[Hashable, T], name: Hashable, make: Callable[[], T]) -> T:
    if name not in cache:
        cache[name] = make()
    return cache[name]


def _what_is_sent(method: Method[Any]) -> Hashable:
    settings = tuple(sorted(method.client_settings.items()))
    return type(method).summarize, method.summary_type, settings


def traffic_of(sent: Collected) -> Traffic:
    """Return the traffic of what was sent."""
    means = sum(len(summary.counts) for summary in sent.summaries)
    return Traffic(sent.formula_bytes, sent.wire_bytes, means)


def expected_traffic(method: Method[Any], dealt: Dealt) -> Traffic:
    """Return what clients with one row a class would send, from the shapes alone."""
    sender = Sender(method)
    formula_bytes = wire_bytes = num_means = 0
    for client_id, features, labels in dealt:
        classes = np.unique(labels)
        formula, wire = sender.expected_bytes(classes, features.shape[1], client_id=client_id)
        formula_bytes += formula
        wire_bytes += wire
        num_means += len(classes)
    return Traffic(formula_bytes, wire_bytes, num_means)


def run(
    experiment: Experiment,
    results: Results,
    load: Callable[[str, str], FeatureSet],
    *,
    seeds: int | None = None,
) -> None:
    """Run what is not among the results yet, and add it to them row by row.

    What cannot be run is kept beside them with the reason.

    Parameters
    ----------
    experiment : Experiment
    results : Results
    load : callable
        From the names of a data set and a backbone to their features.
    seeds : int, optional
        Default: the experiment's.
    """
    skipped: list[Skipped] = []
    for (dataset, backbone), settings in groupby(experiment.settings(), key=lambda s: s[:2]):
        pending = [
            ((dealing, seed), setting)
            for dealing, group in groupby(settings, key=lambda setting: setting.dealing)
            for dealt_alike in [list(group)]
            for seed in range(experiment.seeds if seeds is None else seeds)
            for setting in dealt_alike
            if row_of(experiment, setting, seed) not in results
        ]
        if not pending:
            continue
        or_skip = partial(_or_skip, skipped, dataset, backbone)
        title = f"{experiment.name}: {dataset}, {backbone}"
        with or_skip():
            source = _Source(load(dataset, backbone))
            with progress_bar(title, len(pending), unit="runs") as advance:
                for (dealing, seed), group in groupby(pending, key=itemgetter(0)):
                    with or_skip():
                        federation = _Federation(source, dealing, seed)
                        if seed == 0:
                            name = partition_name({"dataset": dataset} | asdict(dealing))
                            results.keep_histogram(name, federation.histogram())
                        for _, setting in group:
                            with or_skip(), warnings.catch_warnings():
                                # A grid asks for it: no shrinkage, few means, G_btw alone.
                                warnings.simplefilter("ignore", SingularScatterWarning)
                                row = row_of(experiment, setting, seed)
                                measured = federation.measure(
                                    experiment,
                                    setting,
                                    checkpoint=results.checkpoint(row),
                                    on_round=partial(_tell, advance, f"{title}, {row['method']}"),
                                )
                                results.append(row | measured)
                            advance(1, title)
    results.skip(experiment.name, list(dict.fromkeys(skipped)))


def _tell(advance: Advance, title: str, one: Round) -> None:
    advance(0, f"{title}, round {one.number}, {one.accuracy:.1%}")


@contextmanager
def _or_skip(skipped: list[Skipped], dataset: str, backbone: str) -> Iterator[None]:
    try:
        yield
    except (FedCOFError, ValueError, OSError, ImportError) as error:
        skipped.append(Skipped(dataset, backbone, str(error)))


def row_of(experiment: Experiment, setting: Setting, seed: int) -> Row:
    """Return the columns that name a run."""
    return {"experiment": experiment.name, **setting.columns(), "seed": seed}
