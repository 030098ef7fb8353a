"""FedCOFSketch beside FedCOF: the client's extra time for its sketch, and the server's solve.

In seconds of the processor, which other work on the machine does not add to.

The server's part is synthetic, at the size of iNaturalist-Users-120K: its clients have few samples,
so each has few vectors. Both methods get the same means, in one run.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from fedcof import FedCOF, FedCOFSketch, ScatterSketch, from_bytes
from fedcof.client import Sender
from fedcof.summaries import ClassMeans
from fedcof.transforms import RandomFeatures
from measure import Result, interleaved_medians, show
from server_solve import make_summaries


def with_sketches(summaries: list[ClassMeans], rank: int) -> list[ScatterSketch]:
    """Return the same means with random vectors, as many as each client's samples allow."""
    rng = np.random.default_rng(1)
    sketches = []
    for summary in summaries:
        most = min(rank, summary.total - len(summary.counts))
        sketch = ScatterSketch(
            client_ids=summary.client_ids,
            classes=summary.classes,
            counts=summary.counts,
            means=summary.means,
            vectors=rng.standard_normal((most, summary.dim)).astype(np.float32),
            trace=np.array([0.5 * summary.dim * most]),
        )
        received = from_bytes(sketch.to_bytes("means=int8,vectors=int4"))
        assert isinstance(received, ScatterSketch)
        sketches.append(received)
    return sketches


def client_seconds(
    features: NDArray[np.float32], rank: int, repeats: int, transform: RandomFeatures | None = None
) -> list[float]:
    """Return what a client of 30 classes takes to send: with a sketch, and for FedCOF."""
    labels = np.arange(len(features)) % 30
    settings = {} if transform is None else {"transform": transform}
    sketch, fedcof = (
        Sender(method, coding="int8", **settings)  # type: ignore[arg-type]
        for method in (FedCOFSketch(rank=rank), FedCOF())
    )
    return interleaved_medians(
        repeats,
        lambda: sketch.send(features, labels),
        lambda: fedcof.send(features, labels),
        clock=time.process_time,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=9275)
    parser.add_argument("--classes", type=int, default=1203)
    parser.add_argument("--means", type=int, default=54590)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--samples", type=int, default=500, help="of the client that is timed")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = vars(parser.parse_args())
    as_json, repeats, rank = (options.pop(name) for name in ("json", "repeats", "rank"))
    samples: int = options.pop("samples")
    sizes: dict[str, int] = options

    results = []
    features = np.random.default_rng(0).standard_normal((samples, sizes["dim"])).astype(np.float32)
    for name, transform in (
        ("", None),
        (" lifted to 2,048", RandomFeatures(2048)),
        (" lifted to 4,096", RandomFeatures(4096)),
    ):
        with_sketch, without = client_seconds(features, rank, repeats, transform)
        results.append(Result(f"client{name}, FedCOF", 1e3 * without, "ms"))
        extra = 1e3 * (with_sketch - without)
        limit = None if transform else 50.0
        results.append(Result(f"client{name}, extra for the sketch", extra, "ms", at_most=limit))

    summaries = make_summaries(**sizes)
    sketches = with_sketches(summaries, rank)
    ours, fedcof = interleaved_medians(
        repeats,
        lambda: FedCOFSketch().solve(sketches),
        lambda: FedCOF().solve(summaries),
        clock=time.process_time,
    )
    vectors = sum(len(sketch.vectors) for sketch in sketches)
    show(
        "FedCOFSketch beside FedCOF",
        {**sizes, "vectors": vectors, "rank": rank, "samples": samples, "repeats": repeats},
        [
            *results,
            Result("server, FedCOF", fedcof, "s"),
            Result("server, FedCOFSketch", ours, "s"),
            Result("FedCOFSketch / FedCOF", ours / fedcof, "x", at_most=3.0),
        ],
        as_json,
    )


if __name__ == "__main__":
    main()
