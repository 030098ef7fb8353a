"""Clients per second, server memory and bytes on the wire, from one process to a simulation.

Synthetic features. The number of samples of every client is drawn, or read from a CSV file such as
that of iNaturalist-Users-120K. Ways to run the same clients: this process alone; one SuperNode that
holds them all, and one SuperNode a client, in a simulation; and Flower's own simulation, by Ray.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from fedcof import FedCOF, __version__
from fedcof.client import Sender
from fedcof.data import Partition
from fedcof.data.partition import by_column
from fedcof.experiments import Dealt
from fedcof.experiments.evaluate import collect
from fedcof.federation.answering import answer
from fedcof.federation.plan import Plan
from fedcof.federation.records import DESCRIBE, Answer, Job, Record, Roster
from fedcof.federation.serving import Settings, serve
from fedcof.federation.simulation import run, write_clients
from fedcof.progress import progress_bar
from fedcof.summaries import ClassMeans
from measure import peak_resident

NEW_CLASS = 0.41
"""Chance that a further image of a client is of a class that it had not: as in iNaturalist-Users,
where 120,300 images of 9,275 clients make 54,590 means."""

MEGABYTE = 1e6

MEANS = 6
"""Class means of a client in a crowd."""


@dataclass(frozen=True)
class Run:
    """One engine: how long, from an idle process to the head, and the memory of the server's."""

    clients: int
    engine: str
    seconds: float
    first_after_s: float
    clients_per_s: float
    server_mb: float
    means_mb: float


@dataclass(frozen=True)
class Growth:
    """What the server allocates at its peak, apart from its libraries."""

    clients: int
    classes: int
    means: int
    means_mb: float
    head_mb: float
    server_mb: float


@dataclass(frozen=True)
class Crowd:
    """What the server takes for many clients behind a few SuperNodes."""

    clients: int
    supernodes: int
    dim: int
    server_processor_s: float
    clients_processor_s: float
    wall_s: float
    run_folder_mb: float
    peak_resident_mb: float
    more_than_before_mb: float


@dataclass(frozen=True)
class Wire:
    """What an answer takes as Flower sends it, against the paper's 4 M d bytes."""

    answer: str
    means: int
    formula_bytes: int
    wire_bytes: int
    overhead: float


# The clients


def draw_sizes(clients: int, csv: Path | None, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how many samples every client has: many have one, a few have hundreds."""
    if csv is None:
        return np.minimum(np.ceil(rng.lognormal(0.5, 2.0, clients)), 1000).astype(np.int64)
    sizes = np.loadtxt(csv, dtype=np.int64, skiprows=1)
    if clients > len(sizes):
        raise SystemExit(f"{csv} has {len(sizes)} clients, not {clients}")
    return np.asarray(rng.permutation(sizes)[:clients])


def draw_labels(size: int, classes: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the classes of one client's samples, most of which it has seen before."""
    labels = rng.integers(classes, size=size)
    for i in np.flatnonzero(rng.random(size) > NEW_CLASS).tolist():
        labels[i] = labels[rng.integers(max(1, i))]
    return labels


def make_clients(folder: Path, csv: Path | None, clients: int, classes: int, dim: int) -> None:
    """Write clients as a folder that a SuperNode reads."""
    rng = np.random.default_rng(0)
    sizes = draw_sizes(clients, csv, rng)
    labels = np.concatenate([draw_labels(size, classes, rng) for size in sizes.tolist()])
    features = rng.standard_normal((len(labels), dim), dtype=np.float32)
    names = tuple(f"client-{i:05}" for i in range(clients))
    write_clients(folder, features, labels, Partition(np.repeat(np.arange(clients), sizes), names))


# The engines

Advance = Callable[[int], None]
Work = Callable[[Advance], object]


def one_process(folder: Path, clients: int) -> Work:
    """Summarize, encode, decode, solve, without Flower."""
    features, labels, names = (
        np.load(folder / f"{name}.npy") for name in ("features", "labels", "clients")
    )
    dealt = Dealt(features, labels, by_column(names), features[:0], labels[:0])
    sender = Sender(FedCOF())
    return lambda advance: sender.method.solve(collect(sender, dealt, advance=advance).summaries)


def one_supernode(folder: Path, clients: int) -> Work:
    """Simulate one SuperNode that holds all clients; started and stopped."""
    return simulated(folder, clients, nodes=1)


def supernode_each(folder: Path, clients: int) -> Work:
    """Simulate a SuperNode for every client; started and stopped."""
    return simulated(folder, clients, nodes=clients)


def simulated(folder: Path, clients: int, nodes: int) -> Work:
    def work(advance: Advance) -> None:
        with tempfile.TemporaryDirectory() as run_folder:
            run(settings_for(folder, clients, Path(run_folder)), nodes, advance)

    return work


def simulated_by_flower(folder: Path, clients: int) -> Work:
    """Simulate one SuperNode that holds all clients with Flower and Ray; started and stopped."""
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    from fedcof.federation.client_app import app
    from fedcof.federation.server_app import FlowerGrid
    from fedcof.scale.ray_engine import ray_engine

    server = ServerApp()

    def work(advance: Advance) -> None:
        @server.main()
        def main(grid: Any, context: Any) -> None:
            with tempfile.TemporaryDirectory() as run_folder:
                settings = settings_for(folder, clients, Path(run_folder))
                serve(FlowerGrid(grid), settings, advance=advance, pause=0.05)

        resources: Any = {"num_cpus": 1, "num_gpus": 0.0}
        with ray_engine():
            run_simulation(server, app, 1, backend_config={"client_resources": resources})

    return work


def settings_for(folder: Path, clients: int, run_folder: Path) -> Settings:
    job, plan = (
        Job(Sender(FedCOF()), data=str(folder)),
        Plan(min_clients=clients, one_question=True),
    )
    return Settings(job, run_folder, plan)


ENGINES = {
    "one process": one_process,
    "one SuperNode": one_supernode,
    "a SuperNode a client": supernode_each,
    "one SuperNode, Flower's simulation": simulated_by_flower,
}


def measure(engine: str, folder: Path, clients: int) -> Run:
    """Run an engine; in a process of its own, since memory is the peak of a process."""
    work, arrivals = ENGINES[engine](folder, clients), []
    before = peak_resident()
    start = time.perf_counter()
    with progress_bar(engine, clients, unit="clients") as show_progress:

        def advance(steps: int) -> None:
            show_progress(steps)
            if steps:
                arrivals.append(time.perf_counter() - start)

        work(advance)
    seconds = time.perf_counter() - start
    return Run(
        clients=clients,
        engine=engine,
        seconds=seconds,
        first_after_s=arrivals[0],
        clients_per_s=clients / seconds,
        server_mb=(peak_resident() - before) / MEGABYTE,
        means_mb=4 * count_means(folder) * dim_of(folder) / MEGABYTE,
    )


def count_means(folder: Path) -> int:
    """Return M, the number of pairs of a client and a class."""
    clients, labels = np.load(folder / "clients.npy"), np.load(folder / "labels.npy")
    return len(set(zip(clients.tolist(), labels.tolist(), strict=True)))


def dim_of(folder: Path) -> int:
    return int(np.load(folder / "features.npy", mmap_mode="r").shape[1])


# The server alone


class InnerGrid:
    """One SuperNode in this process."""

    def online(self) -> list[int]:
        """Return its id."""
        return [1]

    def key(self, node_id: int) -> str:
        """Return that it has none."""
        return ""

    def ask(self, node_id: int, action: str, question: Record, ttl: float) -> str:
        """Answer at once."""
        context = SimpleNamespace(node_id=node_id, node_config={})
        self._answer = answer(action, question, context)
        return "1"

    def answers(self, question_ids: Collection[str]) -> Iterator[tuple[str, Record]]:
        """Yield what was answered."""
        yield from ((question_id, self._answer) for question_id in question_ids)


def growth(folder: Path, clients: int, classes: int) -> Growth:
    """Return what collecting and solving allocate at their peak, a SuperNode's answers included."""
    with tempfile.TemporaryDirectory() as run_folder:
        settings = settings_for(folder, clients, Path(run_folder))
        tracemalloc.start()
        serve(InnerGrid(), settings)
        memory = tracemalloc.get_traced_memory()[1] / MEGABYTE
        tracemalloc.stop()
    row = 4 * dim_of(folder) / MEGABYTE
    means = count_means(folder)
    held = len(np.unique(np.load(folder / "labels.npy")))
    return Growth(clients, classes, means, row * means, row * held, memory)


class ManyClients:
    """SuperNodes in this process whose clients send some class means; the making is timed apart."""

    def __init__(self, clients: int, nodes: int, classes: int, dim: int) -> None:
        self._names = np.array_split([f"client-{i:07}" for i in range(clients)], nodes)
        self._rng = np.random.default_rng(0)
        self._centres = self._rng.standard_normal((classes, dim)).astype(np.float32)
        self._answers: dict[str, Record] = {}
        self.seconds = 0.0

    def online(self) -> list[int]:
        """Return the ids."""
        return list(range(len(self._names)))

    def key(self, node_id: int) -> str:
        """Return the fingerprint of a key, so that clients belong to it."""
        return f"SHA256:{node_id}"

    def ask(self, node_id: int, action: str, question: Record, ttl: float) -> str:
        """Note the question."""
        self._answers[str(node_id)] = {"node": node_id, "action": action, **question}
        return str(node_id)

    def answers(self, question_ids: Collection[str]) -> Iterator[tuple[str, Record]]:
        """Make the answers, one after the other."""
        for question_id in question_ids:
            start = time.process_time()
            answer = self._answer(self._answers.pop(question_id))
            self.seconds += time.process_time() - start
            yield question_id, answer

    def _answer(self, question: Record) -> Record:
        if question["action"] == DESCRIBE:
            names = self._names[question["node"]].tolist()
            return Roster(names, version=__version__, clock=time.time()).to_record()
        done, size = {}, 0
        for name in question["clients"]:
            data = self._summary(name)
            size += len(data)
            if size > question["limit"]:
                break
            done[name] = data
        return Answer(done).to_record()

    def _summary(self, name: str) -> bytes:
        first = self._rng.integers(len(self._centres))
        labels = np.sort((first + np.arange(MEANS)) % len(self._centres))
        noise = self._rng.standard_normal(self._centres.shape[1], dtype=np.float32)
        counts = self._rng.geometric(1 / 2.2, MEANS)
        summary = ClassMeans(
            client_ids=(name,), classes=labels, counts=counts, means=self._centres[labels] + noise
        )
        return summary.to_bytes()


def crowd(clients: int, nodes: int, classes: int, dim: int) -> Crowd:
    """Return what the server takes for clients that come by tens of thousands a SuperNode."""
    with tempfile.TemporaryDirectory() as run_folder:
        job, plan = Job(Sender(FedCOF())), Plan(min_clients=clients)
        grid = ManyClients(clients, nodes, classes, dim)
        before, start, wall = peak_resident(), time.process_time(), time.perf_counter()
        serve(grid, Settings(job, Path(run_folder), plan))
        seconds = time.process_time() - start - grid.seconds
        elapsed = time.perf_counter() - wall
        size = sum(path.stat().st_size for path in Path(run_folder).iterdir()) / MEGABYTE
        resident = peak_resident() / MEGABYTE
    extra = resident - before / MEGABYTE
    return Crowd(clients, nodes, dim, seconds, grid.seconds, elapsed, size, resident, extra)


# The wire


def wire(what: str, job: Job, clients: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> Wire:
    """Return the size of one SuperNode's answer for some clients."""
    summaries = {}
    for i, (features, labels) in enumerate(clients):
        name = f"client-{i:05}"
        summary = job.sender.send(features, labels, client_id=name)
        assert summary is not None
        summaries[name] = summary
    record = Answer({name: summary.data for name, summary in summaries.items()}).to_record()
    formula = sum(summary.formula_bytes for summary in summaries.values())
    means = sum(len(np.unique(labels)) for _, labels in clients)
    sent = flower_bytes(record)
    return Wire(what, means, formula, sent, sent / formula - 1)


def flower_bytes(record: dict[str, Any]) -> int:
    """Return the bytes of an answer's record; what Flower adds to a message is not counted."""
    from flwr.app import ConfigRecord, RecordDict

    from fedcof.federation.training.exchange import wire_bytes

    return wire_bytes(RecordDict({"answer": ConfigRecord(record)}))


# The report


def show(title: str, rows: Sequence[Any]) -> None:
    """Print rows of one kind as a table."""
    table = Table(*(name.replace("_", " ") for name in asdict(rows[0])), title=title)
    for row in rows:
        table.add_row(*map(_text, asdict(row).values()))
    Console().print(table)


def _text(cell: float | str) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.3g}"


def in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns, run where nothing has been allocated before.

    All that is large is made so: the peak of a process starts from the pages of its parent.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1000, 9275])
    parser.add_argument("--sizes", type=Path, help="CSV with the samples of every client, a header")
    parser.add_argument("--classes", type=int, default=1203)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--crowd", type=int, default=100_000, help="clients behind ten SuperNodes; 0: none"
    )
    options = parser.parse_args()

    runs, grown = [], []
    crowded = [options.crowd] * bool(options.crowd)
    crowds = [
        in_new_process(crowd, clients, 10, options.classes, options.dim) for clients in crowded
    ]
    for clients in options.clients:
        for classes in (options.classes, 10 * options.classes):
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary)
                kind = (options.sizes, clients, classes, options.dim)
                in_new_process(make_clients, folder, *kind)
                grown.append(in_new_process(growth, folder, clients, classes))
                engines = options.engines if classes == options.classes else []
                runs += [in_new_process(measure, name, folder, clients) for name in engines]

    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(29), 2)
    users = [(rng.standard_normal((58, 512), dtype=np.float32), labels) for _ in range(100)]
    wires = [
        wire("1 client, 29 classes, dim 512", Job(Sender(FedCOF())), users[:1]),
        wire("100 clients, 29 classes each, dim 512", Job(Sender(FedCOF())), users),
    ]
    if options.json:
        tables = {"runs": runs, "growth": grown, "crowds": crowds, "wire": wires}
        print(json.dumps({name: [asdict(row) for row in rows] for name, rows in tables.items()}))
        return
    show("Engines", runs)
    show("The server alone", grown)
    if crowds:
        show("The server with many clients behind ten SuperNodes", crowds)
    show("On the wire", wires)


if __name__ == "__main__":
    main()
