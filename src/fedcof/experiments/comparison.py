"""The methods on own data: split and dealt anew with every seed, and what is to be known of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcof.data import Dealing, FeatureTable, Partition
from fedcof.errors import FewMeansWarning, SingularScatterWarning, SummaryError
from fedcof.experiments.clients import Clients, Source
from fedcof.experiments.experiment import Execution, Experiment, Setting, SettingGrid
from fedcof.experiments.features import FeatureSet
from fedcof.experiments.one_round import one_round
from fedcof.experiments.results import Row, Skipped
from fedcof.methods import METHODS, FedCOF, Method
from fedcof.numerics import GroupSums
from fedcof.progress import Advance
from fedcof.settings import settings_of

NAME = "comparison"
TEST_SHARE = 0.2
_VARIED: Mapping[str, tuple[Any, ...]] = {"shrinkage": (0.1, 1.0), "means_per_class": (1, 4)}
"""Of FedCOF, what the best choice of depends on the data."""
_BLOCK = 8192


def compared_methods(hyperparameters: Mapping[str, Any]) -> list[Method[Any]]:
    """Return every method, with those of the hyperparameters that it has.

    FedCOF is there with several shrinkages and means a class, unless they are given.
    """
    METHODS.load_plugins()
    chosen: list[Method[Any]] = []
    for method in METHODS.values():
        known = settings_of(method)
        variants = [method(**{k: v for k, v in hyperparameters.items() if k in known})]
        for name, values in _VARIED.items() if method is FedCOF else ():
            if name not in hyperparameters:
                variants = [replace(each, **{name: v}) for each in variants for v in values]
        chosen += variants
    return chosen


def comparison(
    name: str,
    backbone: str,
    dealing: Dealing,
    methods: list[Method[Any]],
    seeds: int,
    **sending: str,
) -> Experiment:
    """Declare the comparison of methods on one data set; `sending` is that of `one_round`."""
    procedures = one_round(*methods, **sending)
    return Experiment(
        name=NAME,
        title=f"{name}, {dealing.title}",
        grids=(SettingGrid((name,), (backbone,), (dealing,), procedures),),
        metrics=("accuracy", "balanced_accuracy", "formula_bytes", "wire_bytes"),
        figure="communication",
        seeds=seeds,
    )


@dataclass(frozen=True)
class Facts:
    """What the data is like, as it is split and dealt with the first seed.

    Parameters
    ----------
    clients, classes, samples, dim : int
        Of the training part.
    means_per_class : tuple of float
        The fewest, the average and the most clients that hold a class: each sends a mean of it.
    single : int
        The classes that one client holds.
    rank : int
        The means beyond the first of every class, the largest rank that the scatter estimated from
        them can have.
    shift : float or None
        How far the clients' means of a class lie apart, over what chance would do: 1 where the
        clients are alike. None where it cannot be told.
    variance : float or None
        The median over the features of the variance within a class at one client: the shrinkage is
        in its unit. None where no client has two samples of a class.
    untested : tuple of str
        The classes of one sample: it is trained on and never tested.
    """

    clients: int
    classes: int
    samples: int
    dim: int
    means_per_class: tuple[float, float, float]
    single: int
    rank: int
    shift: float | None
    variance: float | None
    untested: tuple[str, ...]


def run_comparison(
    experiment: Experiment, table: FeatureTable, advance: Advance
) -> tuple[list[Row], list[Skipped], Facts]:
    """Run every method with every seed, which splits the data, deals it and draws all else.

    Parameters
    ----------
    experiment : Experiment
        As `comparison` declares it.
    table : FeatureTable
        All samples.
    advance : callable
        Called with 1 after every run.

    Returns
    -------
    rows : list of Row
    skipped : list of Skipped
        The methods that cannot be run on this data, with the reason.
    facts : Facts

    Raises
    ------
    SummaryError
        If no class has two samples, so that nothing can be tested, or there is one class in all.
    """
    settings = experiment.settings()
    rows: list[Row] = []
    skipped: dict[str, Skipped] = {}
    facts = None
    for seed in range(experiment.seeds):
        train, test = split_rows(table.labels, seed)
        source = Source(FeatureSet(table.subset(train), table.subset(test), ""))
        clients = Clients(source, settings[0].dealing, seed)
        if facts is None:
            facts = _facts(table, clients)
        for setting in settings:
            label = str(setting.columns()["method"])
            row = Row(experiment.name, seed, experiment.columns(setting))
            try:
                rows.append(replace(row, measured=_measure(setting, clients, experiment.metrics)))
            except SummaryError as error:
                reason = f"{label}: {error}"
                skipped[reason] = Skipped(NAME, None, setting.dataset, setting.backbone, reason)
            advance(1, None)
    assert facts is not None
    return rows, list(skipped.values()), facts


def _measure(setting: Setting, clients: Clients, metrics: tuple[str, ...]) -> dict[str, Any]:
    with warnings.catch_warnings():
        # What they say of one run stands in the facts of all.
        warnings.simplefilter("ignore", FewMeansWarning)
        warnings.simplefilter("ignore", SingularScatterWarning)
        return setting.procedure.measure(clients, Execution(metrics))


def split_rows(labels: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to train on and those to test on, both in ascending order.

    A fifth of every class is drawn for the test, and at least one sample of a class that has two; a
    class with one sample is trained on alone.

    Raises
    ------
    SummaryError
        If no class has two samples.
    """
    rng = np.random.default_rng(seed)
    tested = []
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        share = max(1, round(TEST_SHARE * len(rows))) if len(rows) > 1 else 0
        tested.append(rng.choice(rows, share, replace=False))
    test = np.sort(np.concatenate(tested))
    if not len(test):
        raise SummaryError(
            "samples", f"each of the {len(tested)} classes has one sample, so none can be tested"
        )
    return np.setdiff1d(np.arange(len(labels)), test), test


def _facts(table: FeatureTable, clients: Clients) -> Facts:
    dealt = clients.dealt
    holders = _holders(dealt.labels, dealt.partition)
    spread = mean_squares(dealt.features, dealt.labels, dealt.partition.assignment)
    numbers, sizes = np.unique(table.labels, return_counts=True)
    return Facts(
        clients=sum(len(rows) > 0 for _, rows in dealt.partition),
        classes=len(holders),
        samples=len(dealt.labels),
        dim=dealt.features.shape[1],
        means_per_class=(float(holders.min()), float(holders.mean()), float(holders.max())),
        single=int((holders == 1).sum()),
        rank=int((holders - 1).sum()),
        shift=spread.shift,
        variance=spread.variance,
        untested=tuple(table.classes[label] for label in numbers[sizes == 1].tolist()),
    )


def _holders(labels: NDArray[np.int64], partition: Partition) -> NDArray[np.int64]:
    """Return how many clients hold each class."""
    pairs = np.unique(np.stack([labels, partition.assignment]), axis=1)
    return np.unique(pairs[0], return_counts=True)[1]


class MeanSquares(NamedTuple):
    """The mean squares of an analysis of variance, one a feature.

    Parameters
    ----------
    between : ndarray of float64, shape (dim,)
        Of the clients' means about their class's mean, weighted by samples; NaN where no class is
        at two clients.
    within : ndarray of float64, shape (dim,)
        Of the samples about their client's mean of their class; NaN where no client has two
        samples of a class.
    """

    between: NDArray[np.float64]
    within: NDArray[np.float64]

    @property
    def shift(self) -> float | None:
        """The ratio of the two, averaged over the features; about 1 without a shift."""
        varying = self.within > 0
        ratios = self.between[varying] / self.within[varying]
        return float(ratios.mean()) if np.isfinite(ratios).any() else None

    @property
    def variance(self) -> float | None:
        """The median over the features of the variance within a class at one client."""
        return None if np.isnan(self.within).any() else float(np.median(self.within))


def mean_squares(
    features: NDArray[np.floating[Any]], labels: NDArray[Any], clients: NDArray[Any]
) -> MeanSquares:
    """Return how far the clients' means of a class lie apart, and the samples about them.

    Where a class is alike at all clients, both estimate its variance.

    Parameters
    ----------
    features : ndarray of float, shape (n, dim)
    labels, clients : ndarray, shape (n,)

    Examples
    --------
    >>> features = np.array([[0.0], [2.0], [10.0], [12.0]])
    >>> mean_squares(features, np.zeros(4), np.array([0, 0, 1, 1]))
    MeanSquares(between=array([100.]), within=array([2.]))
    """
    pairs = np.stack([np.unique(each, return_inverse=True)[1] for each in (labels, clients)])
    held, group = np.unique(pairs, axis=1, return_inverse=True)
    group = group.reshape(-1)
    groups, classes = held.shape[1], int(pairs[0].max()) + 1
    of_groups = GroupSums.of([features], group, groups)
    of_classes = GroupSums.of([features], pairs[0], classes)
    between = of_groups.rows @ (of_groups.means - of_classes.means[held[0]]) ** 2
    within = np.zeros(features.shape[1])
    for rows in _blocks(len(features)):
        within += ((features[rows] - of_groups.means[group[rows]]) ** 2).sum(axis=0)
    return MeanSquares(
        between / (groups - classes or np.nan), within / (len(features) - groups or np.nan)
    )


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, rows, _BLOCK))
