"""Secure aggregation: bytes and seconds a client and at the server, masked against open.

The arrays are class sums, counts and presence, the first phase of FedCOF; ``--gram`` adds a packed
d x d matrix, as Fed3R and the second phase have. Open, a client sends them in float32 and the
server adds them up in float64. All clients run in this one process, one after the other, in
seconds of the processor, which other work on the machine does not add to. Some leave after they
shared their secrets, the dearest time for the server.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcof.privacy.secure.client import Client
from fedcof.privacy.secure.keys import Ed25519Directory, Ed25519Identity
from fedcof.privacy.secure.ring import RingLayout
from fedcof.privacy.secure.server import Server
from fedcof.privacy.secure.terms import Terms, plan
from fedcof.wire import decode, encode
from measure import Result, show

T = TypeVar("T")
Arrays = dict[str, NDArray[np.float64]]
Shapes = Mapping[str, tuple[int, ...]]

SAMPLES, RADIUS = 500, 30.0
LEAVE_BEFORE = 2
"""The exchange that those who leave do not answer: that of the masked vectors."""


@dataclass
class Cost:
    """What a round takes of all clients that stay, and of the server."""

    sent: int = 0
    received: int = 0
    client_seconds: float = 0.0
    server_seconds: float = 0.0

    def client(self, call: Callable[[], T]) -> T:
        """Return what a client makes, and count its seconds."""
        start = time.process_time()
        made = call()
        self.client_seconds += time.process_time() - start
        return made

    def server(self, call: Callable[[], T]) -> T:
        """Return what the server makes, and count its seconds."""
        start = time.process_time()
        made = call()
        self.server_seconds += time.process_time() - start
        return made


def array_shapes(classes: int, dim: int, gram: bool) -> Shapes:
    shapes: dict[str, tuple[int, ...]] = {"sums": (classes, dim)}
    shapes |= {"counts": (classes,), "presence": (classes,)}
    return {**shapes, "gram": (dim * (dim + 1) // 2,)} if gram else shapes


def make_arrays(seed: int, shapes: Shapes) -> Arrays:
    """Return a client's arrays, with numbers of the size that sums of features have."""
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(0, RADIUS, shape) for name, shape in shapes.items()}
    arrays["counts"] = rng.integers(0, 50, shapes["counts"]).astype(np.float64)
    arrays["presence"] = (arrays["counts"] > 0).astype(np.float64)
    return arrays


def make_layout(shapes: Shapes, clients: int) -> RingLayout:
    bounds = {"sums": SAMPLES * RADIUS, "counts": SAMPLES, "presence": 1}
    bounds["gram"] = SAMPLES * RADIUS**2
    return RingLayout.of(shapes, bounds, clients, integers=["counts", "presence"])


def run_open(count: int, shapes: Shapes) -> tuple[Cost, Arrays]:
    """Return what sending the arrays themselves costs, and their sums."""
    cost, total = Cost(), {name: np.zeros(shape) for name, shape in shapes.items()}

    def add(data: bytes) -> None:
        for name, array in decode(data)[0].items():
            total[name] += array

    for seed in range(count):
        arrays = make_arrays(seed, shapes)
        data = cost.client(
            lambda arrays=arrays: encode(  # type: ignore[misc]
                {name: array.astype(np.float32) for name, array in arrays.items()}, {}
            )
        )
        cost.server(lambda data=data: add(data))  # type: ignore[misc]
        cost.sent += len(data)
    return cost, total


def run_masked(count: int, shapes: Shapes, terms: Terms, leavers: int) -> tuple[Cost, Arrays]:
    """Return what a masked round costs, and the sums over those who stay."""
    cost, layout = Cost(), make_layout(shapes, count)
    names = [f"client-{seed}" for seed in range(count)]
    gone = set(names[count - leavers :])
    identities = {name: Ed25519Identity() for name in names}
    directory = Ed25519Directory({name: key.public_key for name, key in identities.items()})
    clients = {}
    for seed, name in enumerate(names):
        arrays = make_arrays(seed, shapes)
        clients[name] = Client(
            client_id=name,
            identity=identities[name],
            directory=directory,
            layout=layout,
            vector=cost.client(lambda arrays=arrays: layout.encode(arrays)),  # type: ignore[misc]
            terms=terms,
        )
    server = Server(
        run=bytes(16),
        round_number=0,
        clients=names,
        directory=directory,
        layout=layout,
        terms=terms,
    )
    exchange = 0
    while messages := cost.server(server.advance):
        for name, message in messages.items():
            if name in gone and exchange >= LEAVE_BEFORE:
                continue
            answer = cost.client(lambda: clients[name].answer(message))  # noqa: B023
            cost.server(lambda: server.receive(name, answer))  # noqa: B023
            if name not in gone:
                cost.sent += len(answer)
                cost.received += len(message)
        exchange += 1
    return cost, cost.server(server.result)


def compare(count: int, shapes: Shapes, terms: Terms, dropouts: float) -> list[Result]:
    leavers = int(dropouts * count)
    opened, expected = run_open(count - leavers, shapes)
    masked, found = run_masked(count, shapes, terms, leavers)
    error = max(
        float(np.abs(found[name] - expected[name]).max() / np.abs(expected[name]).max())
        for name in shapes
    )
    stay = count - leavers
    both = masked.client_seconds + masked.server_seconds
    rows = [
        ("neighbours of a client", plan(count, terms).neighbours, "", None),
        ("a client sends, open", opened.sent / stay / 1e3, "kB", None),
        ("a client sends, masked", masked.sent / stay / 1e3, "kB", None),
        ("a client sends, masked / open", masked.sent / opened.sent, "x", 2.2),
        ("a client receives, masked", masked.received / stay / 1e3, "kB", None),
        ("a client, open", 1e3 * opened.client_seconds / stay, "ms", None),
        ("a client, masked", 1e3 * masked.client_seconds / count, "ms", None),
        ("server, open", opened.server_seconds, "s", None),
        ("server, masked", masked.server_seconds, "s", None),
        ("server, masked / open", masked.server_seconds / opened.server_seconds, "x", None),
        ("all, masked, on two cores", both / 2, "s", 60.0 if count <= 1000 else None),
        ("relative error of a sum", error, "", 1e-6),
    ]
    return [
        Result(f"{count:,} clients: {what}", value, unit, at_most=bar)
        for what, value, unit, bar in rows
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--gram", action="store_true", help="add a packed d x d matrix")
    parser.add_argument("--dropouts", type=float, default=0.02, help="the share that leaves")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    shapes = array_shapes(options.classes, options.dim, options.gram)
    results = [
        result
        for count in options.clients
        for result in compare(count, shapes, Terms(), options.dropouts)
    ]
    numbers = sum(int(np.prod(shape)) for shape in shapes.values())
    settings = {"classes": options.classes, "dim": options.dim, "numbers": numbers}
    settings["drop-outs"] = options.dropouts
    show("Secure aggregation", settings, results, options.json)


if __name__ == "__main__":
    main()
