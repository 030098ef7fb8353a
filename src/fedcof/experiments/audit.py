"""Membership inference against what clients and servers release, protected in several ways."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcof.client import Step
from fedcof.data import Dirichlet
from fedcof.experiments.clients import Clients
from fedcof.experiments.evaluate import Dealt, collect
from fedcof.experiments.experiment import Execution, Experiment, Procedure, SettingGrid
from fedcof.experiments.one_round import method_columns
from fedcof.experiments.paper.common import SQUEEZENET
from fedcof.heads import Head
from fedcof.methods import Fed3R, FedCOF, FedNCM, Method
from fedcof.privacy import CountNoise, MinSamples
from fedcof.privacy.audit import (
    Population,
    canary_scores,
    epsilon_lower_bound,
    mean_log_ratios,
    roc,
    shadow_log_ratios,
)
from fedcof.privacy.differential import CentralPrivacy, SimulatedNoise, noised, private_sums

Features = NDArray[np.floating[Any]]

DELTA = 1e-5
_SHOWN_RATES = np.geomspace(1e-3, 1, 49)
_CANARY_CLASSES, _SHADOWS = 10, 100


@dataclass(frozen=True)
class Protection:
    """What is done before something is released.

    Parameters
    ----------
    name : str
    steps : tuple of Step, default ()
        At the clients.
    epsilon : float, optional
        Of differential privacy by sample, with a delta of 1e-5.
    """

    name: str
    steps: tuple[Step, ...] = ()
    epsilon: float | None = None

    def columns(self) -> dict[str, Any]:
        """Return its name, and the epsilon that it states."""
        stated = {} if self.epsilon is None else {"epsilon": self.epsilon}
        return {"protection": self.name, **stated}

    def private(self, method: Method[Any], dealt: Dealt, seed: int) -> CentralPrivacy:
        """Return the mechanism; the radius is the longest feature of the test set."""
        assert self.epsilon is not None
        return CentralPrivacy(
            private_sums(method, np.unique(dealt.labels), dealt.features.shape[1]),
            self.epsilon,
            DELTA,
            radius=float(np.linalg.norm(dealt.test_features.astype(np.float64), axis=1).max()),
            clients=1,
            noise=SimulatedNoise(seed),
        )


def clipped(features: Features, radius: float) -> NDArray[np.float64]:
    """Return features of at most a length."""
    array = features.astype(np.float64)
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    return np.asarray(array * np.minimum(1.0, (1 - 1e-9) * radius / np.maximum(lengths, 1e-300)))


def measured_of(members: Features, others: Features, *, independent: bool = True) -> dict[str, Any]:
    """Return what an attack reached, as measured columns.

    Parameters
    ----------
    members, others : ndarray of float
        Scores of members, and of others.
    independent : bool, default True
        Whether the trials are, as the bound of epsilon needs them.
    """
    rates = roc(members, others)
    measured = {
        "found_at_1": rates.at(0.01),
        "attack_area": rates.area,
        "roc": [[float(rate), rates.at(rate)] for rate in _SHOWN_RATES],
    }
    if independent:
        measured["measured_epsilon"] = epsilon_lower_bound(members, others, delta=DELTA)
    return measured


class Released(NamedTuple):
    """A class mean of a client, as the server has it."""

    mean: Features
    samples: float
    noise: float
    """The variance of the noise in a number of the mean."""


class Trial(NamedTuple):
    """A class of a client, and the rows of a sample that it has and of one that another has."""

    released: tuple[str, Any]
    rows: tuple[int, int]


@dataclass(frozen=True)
class OnMeans(Procedure):
    """The server asks of the classes of every client whether a sample was among those of the mean.

    It knows what features are like from the test set. A trial is a class of a client, with one of
    its samples and with one of the same class that another client has.

    Parameters
    ----------
    protection : Protection
    single : bool
        Whether the classes are those of one sample, or those of more.
    """

    protection: Protection
    single: bool

    def columns(self) -> dict[str, Any]:
        """Return the attack and the protection."""
        attack = "single samples" if self.single else "class means"
        return {"method": FedCOF.name, "attack": attack, **self.protection.columns()}

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return how many members were found, and the epsilon that this shows."""
        dealt = clients.dealt
        trials = list(self._trials(dealt, np.random.default_rng([clients.seed, 1])))
        released = dict(self._local(clients) if self.protection.epsilon else self._sent(clients))
        scores = np.zeros((2, len(trials)))  # 0 of who sends nothing: both are as likely
        seen = [place for place, trial in enumerate(trials) if trial.released in released]
        if seen:
            there = [released[trials[place].released] for place in seen]
            hidden = any(isinstance(step, CountNoise) for step in self.protection.steps)
            labels = np.array([trials[place].released[1] for place in seen])
            known = Population.of_samples(dealt.test_features, dealt.test_labels)
            for side in (0, 1):
                scores[side, seen] = mean_log_ratios(
                    known,
                    np.array([one.mean for one in there]),
                    labels,
                    dealt.features[[trials[place].rows[side] for place in seen]],
                    None if hidden else np.array([one.samples for one in there]),
                    noise=[one.noise for one in there],
                )
        return measured_of(*scores)

    def _trials(self, dealt: Dealt, rng: np.random.Generator) -> Iterator[Trial]:
        of_class = {label: np.flatnonzero(dealt.labels == label) for label in set(dealt.labels)}
        for client_id, rows in dealt.partition:
            labels = dealt.labels[rows]
            for label, count in zip(*np.unique(labels, return_counts=True), strict=True):
                others = np.setdiff1d(of_class[label], rows)
                if (count == 1) == self.single and len(others):
                    member = rng.choice(rows[labels == label])
                    yield Trial((client_id, label), (int(member), int(rng.choice(others))))

    def _sent(self, clients: Clients) -> Iterator[tuple[tuple[str, Any], Released]]:
        """Yield what is in the summaries of the clients."""
        sender = replace(clients.sender(FedCOF()), steps=self.protection.steps)
        for summary in collect(sender, clients.dealt).summaries:
            assert summary.row_means is not None
            for row, label in enumerate(summary.classes):
                sent = Released(summary.row_means[row], float(summary.counts[row]), 0.0)
                yield (summary.client_ids[0], label), sent

    def _local(self, clients: Clients) -> Iterator[tuple[tuple[str, Any], Released]]:
        """Yield what the server has where each client adds noise of its own."""
        privacy = self.protection.private(FedNCM(), clients.dealt, clients.seed)
        variance = privacy.releases["sums"].variance(1)
        for client_id, features, labels in clients.dealt:
            arrays = privacy.layout.decode(
                privacy.addends(clipped(features, privacy.radius), labels)
            )
            counts = np.maximum(np.rint(arrays["counts"]), 1)
            for label, total, count in zip(
                privacy.sums.classes, arrays["sums"], counts, strict=True
            ):
                yield (client_id, label), Released(total / count, count, variance / count**2)


@dataclass(frozen=True)
class OnHead(Procedure):
    """LiRA: a reader of the head asks which samples were among those that it is made of.

    Heads are made of random halves of the samples, and each in turn is attacked with the others as
    shadows. What a head says of a target is the margin of its class.

    Parameters
    ----------
    method : Method
    protection : Protection
        Differential privacy is central: of the sum over all clients.
    models : int, default 12
        How many heads.
    targets : int, default 5000
        How many samples are asked for.
    """

    method: Method[Any]
    protection: Protection
    models: int = 12
    targets: int = 5000

    def columns(self) -> dict[str, Any]:
        """Return the method, the attack and the protection."""
        return {**method_columns(self.method), "attack": "head", **self.protection.columns()}

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return how many members were found; trials that share a head give no epsilon."""
        dealt, rng = clients.dealt, np.random.default_rng([clients.seed, 2])
        samples = len(dealt.labels)
        half = np.arange(self.models)[:, None] < np.full(samples, self.models // 2)
        member = rng.permuted(half, axis=0)
        asked = rng.choice(samples, min(self.targets, samples), replace=False)
        scores = np.array(
            [
                margins(
                    self._head(clients, rows, model), dealt.features[asked], dealt.labels[asked]
                )
                for model, rows in enumerate(member)
            ]
        )
        ratios = shadow_log_ratios(scores, member[:, asked])
        there = member[:, asked]
        return measured_of(ratios[there], ratios[~there], independent=False)

    def _head(self, clients: Clients, rows: NDArray[np.bool_], model: int) -> Head:
        dealt, seed = clients.dealt, clients.seed * self.models + model
        if self.protection.epsilon:
            privacy = self.protection.private(self.method, dealt, seed)
            features = clipped(dealt.features[rows], privacy.radius)
            vector = privacy.layout.encode(privacy.limited(features, dealt.labels[rows]))
            return privacy.head(noised(privacy, [vector]), answered=1)
        sender = replace(clients.sender(self.method), seed=seed, steps=self.protection.steps)
        partition = replace(dealt.partition, assignment=dealt.partition.assignment[rows])
        half = replace(
            dealt, features=dealt.features[rows], labels=dealt.labels[rows], partition=partition
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd sites
            return self.method.solve(collect(sender, half).summaries, screened=True)


@dataclass(frozen=True)
class OnCanary(Procedure):
    """One who knows all samples but one asks whether that one is there.

    That is the attacker of differential privacy, so what it measures can come close to what is
    stated. The data is of ten classes, and the canary has the length of the radius.

    Parameters
    ----------
    method : Method
    protection : Protection
        Differential privacy, central.
    seen : {"sums", "head"}
        What is released: the noisy sums, or nothing but the head of them.
    trials : int, default 2000
        Of the mechanism, with the canary and without.
    """

    method: Method[Any]
    protection: Protection
    seen: Literal["sums", "head"] = "sums"
    trials: int = 2000

    def columns(self) -> dict[str, Any]:
        """Return the method, the attack and the protection."""
        attack = f"all but one sample known, {self.seen}"
        return {**method_columns(self.method), "attack": attack, **self.protection.columns()}

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return how often the canary is seen, and the epsilon that this shows."""
        dealt = clients.dealt
        rows = np.isin(dealt.labels, np.unique(dealt.labels)[:_CANARY_CLASSES])
        few = replace(dealt, features=dealt.features[rows], labels=dealt.labels[rows])
        privacy = self.protection.private(self.method, few, clients.seed)
        features, labels = clipped(few.features, privacy.radius), few.labels
        features[0] *= (1 - 1e-9) * privacy.radius / np.linalg.norm(features[0])
        without, there = (privacy.limited(features[k:], labels[k:]) for k in (1, 0))
        vectors = [privacy.layout.encode(arrays) for arrays in (without, there)]

        def drawn(world: int, trials: int) -> Iterator[Features]:
            for _ in range(trials):
                vector = noised(privacy, [vectors[world]])
                if self.seen == "sums":
                    yield _flat(privacy.layout.decode(vector))
                else:
                    yield privacy.head(vector, answered=1).weight.ravel()  # type: ignore[attr-defined]

        if self.seen == "sums":
            exact = [_flat(arrays) for arrays in (without, there)]
        else:
            heads = [privacy.sums.head([arrays]) for arrays in (without, there)]
            exact = [head.weight.ravel() for head in heads]  # type: ignore[attr-defined]
        # What the noise is, not what it is said to be: the attack is to see too little of it.
        scales = np.std(list(drawn(0, _SHADOWS)), axis=0)
        others, members = (
            np.concatenate(
                [
                    canary_scores(seen[None], exact[0], exact[1] - exact[0], scales)
                    for seen in drawn(world, self.trials)
                ]
            )
            for world in (0, 1)
        )
        return measured_of(members, others)


def _flat(arrays: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate([array.ravel() for array in arrays.values()])


def margins(head: Head, features: Features, labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return by how much the score of a sample's class is above the largest of the others.

    A class that the head lacks has the least score of all.
    """
    found = head.decision_function(features).astype(np.float64)
    classes = np.unique(np.concatenate([np.asarray(head.classes), labels]))
    scores = np.repeat(found.min(axis=1, keepdims=True), len(classes), axis=1)
    scores[:, np.searchsorted(classes, head.classes)] = found
    own = np.searchsorted(classes, labels)[:, None]
    of_own = np.take_along_axis(scores, own, axis=1)[:, 0]
    np.put_along_axis(scores, own, -np.inf, axis=1)
    return np.asarray(of_own - scores.max(axis=1))


_NONE = Protection("none")
_STEPS = (
    _NONE,
    Protection("counts: uniform, ε 0.1", (CountNoise("uniform", 0.1),)),
    Protection("counts: laplace, ε 0.1", (CountNoise("laplace", 0.1),)),
    Protection("min-samples 5", (MinSamples(5),)),
)
_STATED = (0.5, 1.0, 2.0, 4.0, 8.0)
_LOCAL = tuple(Protection("local DP", epsilon=epsilon) for epsilon in _STATED)
_CENTRAL = tuple(Protection("central DP", epsilon=epsilon) for epsilon in _STATED)

audit = Experiment(
    name="audit",
    title="Membership inference",
    grids=(
        SettingGrid(
            ("cifar100",),
            (SQUEEZENET,),
            (Dirichlet(100, 0.1),),
            (
                *(OnMeans(each, single) for single in (True, False) for each in (*_STEPS, *_LOCAL)),
                *(OnCanary(FedNCM(), each) for each in _CENTRAL),
                *(OnHead(FedCOF(0.1), each) for each in (_NONE, *_STEPS[2:], _CENTRAL[-1])),
                *(OnHead(FedNCM(), each) for each in (_NONE, _CENTRAL[-1])),
                *(OnCanary(FedNCM(), each, "head") for each in _CENTRAL[1::3]),
                *(OnCanary(Fed3R(), each, trials=1000) for each in _CENTRAL[1::3]),
            ),
        ),
    ),
    metrics=("found_at_1", "attack_area", "measured_epsilon"),
    figure="audit",
    seeds=1,
    notes=(
        "Found: the share of members that the attack names while it names 1 % of the others. ε is "
        "what is stated, of differential privacy by sample with δ 1e-5; measured is a lower bound "
        "of it that holds with 95 % (Clopper and Pearson), which no number of trials raises above "
        "the truth; with so many trials it cannot exceed 4 to 6.",
        "Class means and single samples: the server, which knows what features are like from the "
        "test set. Head: LiRA with 12 heads; its trials share heads, so it measures no ε. All but "
        "one sample known: the attacker of differential privacy, on ten classes.",
    ),
)

EXPERIMENTS = (audit,)
"""What this module declares."""
