"""The server's half of FedCOF: from class means in memory to a head.

Synthetic summaries, by default at the size of iNaturalist-Users-120K, against a floor (one BLAS
rank-k update of the same means in the same precision and one Cholesky solve) and against a plain
reading of algorithm 1 with a (dim, dim) matrix for every class and a pseudo-inverse: as the
equation is written, a sum of outer products, and with that sum as one product of BLAS.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fedcof import FedCOF, from_bytes
from fedcof.summaries import ClassMeans, ordered
from measure import Result, interleaved_medians, peak_memory, show

SAMPLES_PER_MEAN = 2.2
"""As in iNaturalist-Users-120K: 120,300 samples in 54,590 means."""


def make_summaries(clients: int, classes: int, means: int, dim: int) -> list[ClassMeans]:
    """Return what `clients` would send: non-negative features, few samples a mean, rare classes."""
    rng = np.random.default_rng(0)
    popularity = 1.0 / np.arange(1, classes + 1) ** 0.5
    sizes = _spread(means, clients, classes, rng)
    centres = rng.gamma(1.0, 0.4, size=(classes, dim))
    summaries = []
    for client, size in enumerate(sizes):
        mine = np.sort(rng.choice(classes, size, replace=False, p=popularity / popularity.sum()))
        counts = rng.geometric(1 / SAMPLES_PER_MEAN, size)
        noise = rng.standard_normal((size, dim)) * 0.3 / np.sqrt(counts)[:, None]
        summary = ClassMeans(
            client_ids=(f"client-{client:05}",),
            classes=mine,
            counts=counts,
            means=np.maximum(0.0, centres[mine] + noise),
        )
        received = from_bytes(summary.to_bytes())
        assert isinstance(received, ClassMeans)
        summaries.append(received)
    return summaries


def _spread(
    means: int, clients: int, classes: int, rng: np.random.Generator
) -> NDArray[np.integer]:
    """Return how many classes each client has: at least 1, at most all, `means` in all."""
    sizes = np.ones(clients, dtype=np.int64)
    appetite = rng.lognormal(size=clients)
    while (missing := means - sizes.sum()) > 0:
        wanted = appetite * (sizes < classes)
        sizes += rng.multinomial(missing, wanted / wanted.sum())
        sizes = np.minimum(sizes, classes)
    return sizes


def floor(means: NDArray[np.float32], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """One rank-k update and one Cholesky solve: what no exact method can do without."""
    gram = linalg.blas.ssyrk(1.0, means.T).astype(np.float64)
    gram.flat[:: len(gram) + 1] += len(means)
    return np.asarray(linalg.cho_solve(linalg.cho_factor(gram), sums.T))


def plain(
    summaries: list[ClassMeans],
    shrinkage: float,
    covariance: Callable[[NDArray[np.int64], NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Algorithm 1 as one reads it, in float64, a class at a time."""
    labels = np.concatenate([summary.classes for summary in summaries])
    counts = np.concatenate([summary.counts for summary in summaries])
    means = np.concatenate([summary.means for summary in summaries]).astype(np.float64)
    dim = means.shape[1]
    gram, sums = np.zeros((dim, dim)), []
    for label in np.unique(labels):
        mine = labels == label
        total = counts[mine].sum()
        class_mean = counts[mine] @ means[mine] / total
        estimate = covariance(counts[mine], means[mine] - class_mean)
        gram += (total - 1) * (estimate + shrinkage * np.eye(dim))
        sums.append(total * class_mean)
    global_mean = np.sum(sums, axis=0) / counts.sum()
    gram += counts.sum() * np.outer(global_mean, global_mean)
    weight = np.array(sums) @ np.linalg.pinv(gram)
    return np.asarray(weight / np.linalg.norm(weight, axis=1, keepdims=True))


def as_written(counts: NDArray[np.int64], deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Equation cov-estimate, letter by letter: the sum over k of an outer product."""
    products = np.einsum("k,ki,kj->ij", counts, deviations, deviations)
    return np.asarray(products / max(1, len(counts) - 1))


def as_a_product(counts: NDArray[np.int64], deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Take that sum as one product of BLAS."""
    return (counts[:, None] * deviations).T @ deviations / max(1, len(counts) - 1)


def solve_memory(sizes: dict[str, int]) -> tuple[int, int]:
    """Return the peak extra bytes of one solve; run in a process of its own."""
    FedCOF().solve(make_summaries(clients=10, classes=5, means=20, dim=sizes["dim"]))
    summaries = make_summaries(**sizes)
    return peak_memory(functools.partial(FedCOF().solve, summaries))


def measure_torch(summaries: list[ClassMeans], device: str, repeats: int) -> list[Result]:
    """Compare a solution whose products torch computes with that of NumPy, in one run."""
    from fedcof.algebra import computed_by
    from fedcof.algebra.torch_algebra import TorchAlgebra

    method, algebra = FedCOF(), TorchAlgebra(device)
    parts = ordered(summaries, ClassMeans)

    def host() -> NDArray[np.float64]:
        return np.asarray(method.fit(method.pool(parts)).slopes)

    def other() -> NDArray[np.float64]:
        with computed_by(algebra):
            return host()

    plain_seconds, seconds = interleaved_medians(repeats, host, other)
    expected = host()
    error = float(np.linalg.norm(other() - expected) / np.linalg.norm(expected))
    return [
        Result(f"products by torch on {device}", seconds, "s"),
        Result("products by SciPy / by torch", plain_seconds / seconds, "x"),
        Result("relative difference of the weights", error, "", at_most=1e-5),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=9275)
    parser.add_argument("--classes", type=int, default=1203)
    parser.add_argument("--means", type=int, default=54590)
    parser.add_argument("--dim", type=int, default=1280)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--torch", choices=["cpu", "cuda"], help="also with the products by torch on this device"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = vars(parser.parse_args())
    as_json, repeats = options.pop("json"), options.pop("repeats")
    device = options.pop("torch")
    sizes: dict[str, int] = options
    clients, classes = sizes["clients"], sizes["classes"]
    if not clients <= sizes["means"] <= clients * classes:
        parser.error(f"{clients} clients of {classes} classes cannot send {sizes['means']} means")

    # Before this process grows: a child's peak starts from the pages of its parent.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        resident, allocated = fresh.submit(solve_memory, sizes).result()

    summaries = make_summaries(**sizes)
    method = FedCOF()
    means = np.concatenate([summary.means for summary in summaries])
    sums = np.random.default_rng(1).standard_normal((sizes["classes"], sizes["dim"]))
    solve_seconds, floor_seconds = interleaved_medians(
        repeats, lambda: method.solve(summaries), lambda: floor(means, sums)
    )
    by_torch = measure_torch(summaries, device, repeats) if device else []
    start = time.perf_counter()
    expected = plain(summaries, method.gamma, as_written)
    plain_seconds = time.perf_counter() - start
    start = time.perf_counter()
    plain(summaries, method.gamma, as_a_product)
    product_seconds = time.perf_counter() - start
    weight = method.solve(summaries).slopes
    error = float(np.linalg.norm(weight - expected) / np.linalg.norm(expected))

    megabyte = 1e6
    budget = (means.nbytes + 4 * 8 * sizes["dim"] ** 2) / megabyte
    show(
        "FedCOF at the server",
        {**sizes, "samples": sum(summary.total for summary in summaries), "repeats": repeats},
        [
            Result("solve", solve_seconds, "s"),
            Result("floor: rank-k update and Cholesky solve", floor_seconds, "s"),
            Result("plain: a matrix a class, pseudo-inverse (once)", plain_seconds, "s"),
            Result("the same, each matrix by one product (once)", product_seconds, "s"),
            Result(
                "solve / floor",
                solve_seconds / floor_seconds,
                "x",
                at_most=2.0 if sizes["dim"] <= 512 else 1.6,
            ),
            Result("plain / solve", plain_seconds / solve_seconds, "x", at_least=20.0),
            Result("by products / solve", product_seconds / solve_seconds, "x"),
            Result("peak extra memory, arrays", allocated / megabyte, "MB", at_most=budget),
            Result("peak extra memory, resident", resident / megabyte, "MB"),
            Result("relative error of the weight", error, "", at_most=1e-5),
            *by_torch,
        ],
        as_json,
    )


if __name__ == "__main__":
    main()
