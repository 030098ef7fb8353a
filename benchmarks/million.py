"""A million clients: synthetic class means written as a data set, and solved from a stream.

Against what no method can do without: one rank-k update of BLAS over the same rows, in float64 as
the solution needs it and in float32, and reading the same bytes once. Seconds are those of the
processor, so that other work on the machine counts little; with one thread of BLAS.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy import linalg
from threadpoolctl import threadpool_limits

from fedcof.methods import get_method
from fedcof.scale import solve
from fedcof.scale.dataset import DataSet
from fedcof.scale.ray_engine import ray_engine
from fedcof.scale.writing import ROW_GROUP_BYTES, options_of
from fedcof.summaries.arrow import Layout
from measure import Result, peak_resident, show

SCALE = np.float32(1 / 64)
"""Of the codes; a bfloat16, as int8 needs it."""

CLIENTS_A_FILE = 100_000
POOL = 1 << 13
"""Rows of noise, of which every mean takes one."""


def write(folder: Path, *, clients: int, means: int, classes: int, dim: int, coding: str) -> int:
    """Write what so many clients would send; return the bytes."""
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    centres = rng.integers(-60, 61, size=(classes, dim), dtype=np.int8)
    noise = rng.integers(-40, 41, size=(POOL, dim), dtype=np.int8)
    folder.mkdir(parents=True)
    each = max(1, ROW_GROUP_BYTES // (4 * dim * means))
    for first in range(0, clients, CLIENTS_A_FILE):
        last = min(first + CLIENTS_A_FILE, clients)
        writer = None
        for start in range(first, last, each):
            names = range(start, min(start + each, last))
            table = _table(rng, names, means, (centres, noise), coding)
            if writer is None:
                path = folder / f"part-{first:08}.parquet"
                writer = parquet.ParquetWriter(path, table.schema, **options_of(table.schema))
            writer.write_table(table, row_group_size=len(table))
        if writer is not None:
            writer.close()
    return sum(path.stat().st_size for path in folder.iterdir())


def _table(
    rng: np.random.Generator,
    names: range,
    means: int,
    codes_of: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]],
    coding: str,
) -> Any:
    import pyarrow as pa

    centres, noise = codes_of
    dim, rows = centres.shape[1], len(names) * means
    labels = np.sort(
        (rng.integers(len(centres), size=(len(names), 1)) + np.arange(means)) % len(centres)
    ).ravel()
    counts = rng.geometric(1 / 2.2, size=rows)
    codes = centres[labels] + noise[rng.integers(len(noise), size=rows)]
    if coding == "int8":
        upper = (np.full(rows, SCALE).view(np.uint32) >> np.uint32(16)).astype("<u2")
        packed = np.concatenate([upper[:, None].view(np.uint8), codes.view(np.uint8)], axis=1)
    else:
        packed = (codes.astype(np.float32) * SCALE).view(np.uint8)
    layout = Layout("class-means", coding, {}, {"dim": dim})
    columns = {
        "client": pa.array(np.repeat([f"client-{name:08}" for name in names], means)),
        "class": pa.array(labels),
        "count": pa.array(counts),
        "n": pa.array(np.repeat(counts.reshape(-1, means).sum(axis=1), means)),
        "means": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(packed.shape[1]), rows, [None, pa.py_buffer(packed.tobytes())]
        ),
    }
    return pa.table(columns).replace_schema_metadata(layout.metadata())


def solved(folder: Path, name: str) -> dict[str, float]:
    """Return what one solution takes; run in a process of its own."""
    method = get_method(name)
    few = DataSet.open([folder], method.summary_type).fragments()[:1]
    solve(method, few)  # so that what is imported and allocated once is not counted
    start, wall = time.process_time(), time.perf_counter()
    data = DataSet.open([folder], method.summary_type)
    head = solve(method, data.without_misfits().fragments()).head
    assert head.provenance is not None
    return {
        "seconds": time.process_time() - start,
        "wall": time.perf_counter() - wall,
        "peak": peak_resident(),
        "clients": head.provenance.clients,
    }


def solved_by(workers: int, folder: Path, name: str) -> dict[str, float]:
    """Return the seconds of a solution by workers of Ray, with their start and without it.

    The second solution of the same workers has all imported.
    """
    method, found = get_method(name), dict[str, float]()
    start = time.perf_counter()
    with ray_engine(workers=workers) as engine:
        for which in ("with start", "wall"):
            processor = time.process_time()
            data = DataSet.open([folder], method.summary_type)
            solve(method, data.without_misfits().fragments(), engine=engine)
            found[which] = time.perf_counter() - start
            found["driver"] = time.process_time() - processor
            start = time.perf_counter()
    return found


def floor(folder: Path, rows: int, dim: int) -> dict[str, float]:
    """Return the seconds of a rank-k update over so many rows, and of reading the files."""
    found: dict[str, float] = {}
    for name, dtype in {"float64": np.float64, "float32": np.float32}.items():
        block = np.random.default_rng(0).standard_normal((4 * dim, dim)).astype(dtype)
        product = linalg.get_blas_funcs("syrk", dtype=dtype)
        product(1.0, block.T)
        times = max(1, min(rows // len(block), 50))
        with threadpool_limits(limits=1, user_api="blas"):
            start = time.process_time()
            for _ in range(times):
                product(1.0, block.T)
        found[name] = (time.process_time() - start) * rows / (times * len(block))
    start, wall = time.process_time(), time.perf_counter()
    for _ in _read(folder):
        pass
    found["read"], found["read wall"] = time.process_time() - start, time.perf_counter() - wall
    return found


def _read(folder: Path) -> Iterator[int]:
    memory = memoryview(bytearray(8 << 20))
    for path in sorted(folder.iterdir()):
        with path.open("rb", buffering=0) as file:
            while size := file.readinto(memory):
                yield size


def _by_ray(one: dict[str, float], two: dict[str, float]) -> list[Result]:
    return [
        Result("one worker of Ray, wall", one["wall"], "s"),
        Result("two workers of Ray, wall", two["wall"], "s"),
        Result("two workers, processor of the driver", two["driver"], "s"),
        Result("one worker and its start, wall", one["with start"], "s"),
        Result("two workers and their start, wall", two["with start"], "s"),
        Result("one worker / two", one["wall"] / two["wall"], "x", at_least=1.6),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for the data set; deleted in the end")
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--means", type=int, default=6, help="class means of a client")
    parser.add_argument("--classes", type=int, default=1203)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--coding", choices=["int8", "float32"], default="int8")
    parser.add_argument("--method", default="fedcof")
    parser.add_argument("--ray", action="store_true", help="also by one and two workers of Ray")
    parser.add_argument(
        "--add",
        type=Path,
        help="also add the numbers to this file; docs/figures/draw.py draws it",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = vars(parser.parse_args())
    folder, as_json = options.pop("folder") / "million", options.pop("json")
    name, by_ray, kept = options.pop("method"), options.pop("ray"), options.pop("add")
    rows = options["clients"] * options["means"]
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
            start = time.perf_counter()
            size = fresh.submit(write, folder, **options).result()
            written = time.perf_counter() - start
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
            taken = fresh.submit(solved, folder, name).result()
        least = floor(folder, rows, options["dim"])
        ray = {workers: solved_by(workers, folder, name) for workers in (1, 2) if by_ray}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert taken["clients"] == options["clients"]
    if kept is not None:
        points = json.loads(kept.read_text()) if kept.exists() else []
        points.append(
            {
                **options,
                "bytes": size,
                "solving": round(taken["seconds"], 3),
                "update": round(least["float64"], 3),
                "update in float32": round(least["float32"], 3),
                "reading": round(least["read"], 3),
                "peak": taken["peak"],
            }
        )
        kept.write_text("[\n  " + ",\n  ".join(map(json.dumps, points)) + "\n]\n")
    show(
        "A data set of class means, solved from a stream",
        {**options, "method": name, "rows": rows},
        [
            Result("bytes of the data set", size / 1e9, "GB"),
            Result("writing", written, "s"),
            Result("solving, processor", taken["seconds"], "s"),
            Result("solving, wall", taken["wall"], "s"),
            Result("rank-k update in float64", least["float64"], "s"),
            Result("rank-k update in float32", least["float32"], "s"),
            Result("reading the bytes once, processor", least["read"], "s"),
            Result("reading the bytes once, wall", least["read wall"], "s"),
            Result(
                "solving / (update in float64 + reading)",
                taken["seconds"] / (least["float64"] + least["read"]),
                "x",
                at_most=2.5,
            ),
            Result(
                "solving / (update in float32 + reading)",
                taken["seconds"] / (least["float32"] + least["read"]),
                "x",
            ),
            Result("clients", taken["clients"] / taken["seconds"], "/s"),
            Result("peak resident", taken["peak"] / 1e9, "GB", at_most=1.5),
            *(_by_ray(ray[1], ray[2]) if by_ray else ()),
        ],
        as_json,
    )


if __name__ == "__main__":
    main()
