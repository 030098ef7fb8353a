"""What is chosen from summaries alone, beside the best of a grid, and the seconds that it takes.

A regret is the accuracy of the best of 12 relative shrinkages on the test samples, less that of the
one that was chosen without them, in points. Features come from a file of NumPy with ``X``, ``y``,
``Xt``, ``yt`` (and ``domain``, which is then the client); without one, scikit-learn's digits.
Seconds are those of the processor, on features of a normal distribution.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.client import Sender
from fedcof.data import Dirichlet
from fedcof.errors import FewMeansWarning
from fedcof.methods import Fed3R, FedCOF, FedCOFSketch, Method
from fedcof.summaries import Summary, from_bytes, ordered
from measure import Result, show

GRID = np.geomspace(1e-3, 1e2, 12)
Data = dict[str, NDArray[Any]]


def digits() -> Data:
    """Return scikit-learn's digits, a fifth of them to test on."""
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    test = np.random.default_rng(0).random(len(labels)) < 0.2
    return {
        "X": features[~test].astype(np.float32),
        "y": labels[~test],
        "Xt": features[test].astype(np.float32),
        "yt": labels[test],
    }


def pooled(method: Method[Any], data: Data, clients: list[NDArray[np.int64]]) -> Any:
    """Return what a method's head depends on, after the wire."""
    sender = Sender(method)
    sent = [
        sender.send(data["X"][rows], data["y"][rows], client_id=f"{k:05d}")
        for k, rows in enumerate(clients)
        if len(rows)
    ]
    parts = [from_bytes(each.data) for each in sent if each is not None]
    return method.pool(ordered(parts, Summary))


def regret(method: Any, data: Data, clients: list[NDArray[np.int64]]) -> float:
    """Return by how many points the best of the grid is better than what is chosen."""
    content = pooled(method, data, clients)

    def accuracy(candidate: Any) -> float:
        return 100.0 * float(candidate.fit(content).score(data["Xt"], data["yt"]))

    if isinstance(method, Fed3R):
        freedom = int(content.counts.sum())
        unit = method.scatter_of(content).mean_variance * freedom
        candidates: list[Any] = [Fed3R(value * unit) for value in GRID / 100]
    elif isinstance(method, FedCOFSketch):
        candidates = [
            replace(method, rho=rho, shrinkage_relative=relative)
            for rho in (0.0, 0.2, 0.5, 1.0)
            for relative in GRID
        ]
    else:
        candidates = [replace(method, shrinkage_relative=relative) for relative in GRID]
    return max(map(accuracy, candidates)) - accuracy(method)


def regrets(data: Data, seeds: int) -> list[Result]:
    """Return the regrets of the methods on every dealing of the data."""
    dealings: dict[str, list[list[NDArray[np.int64]]]] = {}
    if "domain" in data:
        domains = data["domain"]
        dealings["by domain"] = [[np.flatnonzero(domains == each) for each in np.unique(domains)]]
    else:
        for number, alpha in ((100, 0.1), (10, 0.1), (100, 0.01)):
            scheme = Dirichlet(clients=number, alpha=alpha)
            dealings[f"{number} clients, alpha {alpha}"] = [
                [np.asarray(rows) for _, rows in scheme.deal(data["y"], {}, seed)]
                for seed in range(seeds)
            ]
    methods: dict[str, Any] = {
        "fedcof": FedCOF("auto"),
        "fedcof, lda": FedCOF("auto", form="lda"),
        "fed3r": Fed3R("auto"),
        **{f"fedcof-sketch, rank {rank}": FedCOFSketch(rank=rank) for rank in (0, 16, 64)},
    }
    return [
        Result(f"{name}, {dealing}", float(np.mean(found)), "points", at_most=0.4)
        for dealing, dealt in dealings.items()
        for name, method in methods.items()
        for found in [[regret(method, data, clients) for clients in dealt]]
    ]


def seconds(clients: int, classes: int, dim: int) -> list[Result]:
    """Return how long it takes to choose where every client has a mean of every class."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(classes), 4 * clients)
    centres = rng.normal(size=(classes, dim))
    features = centres[labels] + 3 * rng.normal(size=(len(labels), dim))
    data: Data = {"X": features.astype(np.float32), "y": labels}
    dealt = np.array_split(np.arange(len(labels)), clients)
    results = []
    for method in (FedCOF("auto"), Fed3R("auto"), FedCOFSketch(rank=2)):
        content = pooled(method, data, dealt)
        start = time.process_time()
        method.tuned(content)
        taken = time.process_time() - start
        results.append(Result(f"{method.name}, seconds", taken, "s", at_most=5.0))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("features", nargs="*", type=Path, help="files of NumPy")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=1, help="seeds of the dealings")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", FewMeansWarning)
    results = seconds(options.clients, options.classes, options.dim)
    sets = {path.stem: dict(np.load(path)) for path in options.features} or {"digits": digits()}
    for name, data in sets.items():
        for found in regrets(data, options.repeats):
            results.append(replace(found, what=f"{name}: {found.what}"))
    settings = {"clients": options.clients, "classes": options.classes, "dim": options.dim}
    show("Chosen from summaries alone", settings, results, options.json)


if __name__ == "__main__":
    main()
