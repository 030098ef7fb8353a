"""A federation in Flower's simulation: virtual SuperNodes on this machine, by Ray."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.client import Sender
from fedcof.data import Partition
from fedcof.federation.plan import Plan
from fedcof.federation.records import Job
from fedcof.federation.report import CollectionReport
from fedcof.federation.secure.plan import SecurePlan
from fedcof.federation.secure.serving import serve_securely
from fedcof.federation.serving import Settings, serve
from fedcof.files import owner_only
from fedcof.heads import Head
from fedcof.scale.ray_engine import QUIET, running_ray

A_CPU_EACH: dict[str, Any] = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
"""What a worker of Flower's simulation takes."""


def simulate(
    sender: Sender,
    features: NDArray[np.floating[Any]],
    labels: NDArray[Any],
    partition: Partition,
    run_folder: Path,
    *,
    nodes: int | None = None,
    plan: Mapping[str, Any] | None = None,
    secure: Mapping[str, Any] | None = None,
    depends_on: Mapping[str, Any] | None = None,
    origin: Mapping[str, str] | None = None,
    address: str = "",
    advance: Callable[[int], None] = lambda steps: None,
) -> tuple[Head, CollectionReport]:
    """Run a federation whose clients hold the parts of one set of features.

    The head is that of the same clients in one process, to the last bit. A run that was stopped
    goes on from its run folder.

    Parameters
    ----------
    sender : Sender
        How every client makes what it sends.
    features : ndarray of float, shape (n, dim)
    labels : ndarray of int or str, shape (n,)
    partition : Partition
        Which client holds which of the n samples; clients without any do not take part.
    run_folder : path
        Where summaries, head and report are kept.
    nodes : int, optional
        Number of SuperNodes, over which the clients are spread. Default: one a client.
    plan : mapping, optional
        Settings of `Plan` by name. Unless it says otherwise, every client has to answer. Where all
        take part, a SuperNode is asked one question.
    secure : mapping, optional
        Settings of `SecurePlan` by name. In a simulation they protect nobody, since all is on one
        machine; the messages and the head are those of a deployment.
    depends_on : mapping, optional
        What the data is, so that the run folder is not used for other data.
    origin : mapping of str to str, optional
        What made the features, as the summaries will say it.
    address : str, default ""
        Of a cluster of Ray that is running, such as ``auto`` for the one on this machine; its
        workers must have the same fedcof, and read the folder of temporary files. Empty: Ray is
        started here and stopped afterwards, which takes most of the time of a small federation.
    advance : callable
        Called with the number of clients that answered since the last call.

    Returns
    -------
    head : Head
    report : CollectionReport

    Raises
    ------
    TooFewClientsError
        If fewer clients answer than the plan needs.
    RunFolderError
        If the run folder belongs to another federation.
    ConnectionError
        If there is no cluster of Ray at this address.
    """
    with tempfile.TemporaryDirectory(prefix="fedcof-") as folder:
        clients = write_clients(Path(folder), features, labels, partition)
        settings = Settings(
            job=Job(sender, data=folder, origin=origin or {}),
            run_folder=run_folder,
            plan=_plan(clients, plan or {}, secure=bool(secure)),
            classes=tuple(np.unique(labels).tolist()) if secure else (),
            secure=SecurePlan(**(secure or {})),
            depends_on=depends_on or {},
        )
        return run(settings, min(nodes or clients, clients), advance, address=address)


def _plan(clients: int, given: Mapping[str, Any], *, secure: bool) -> Plan:
    """Return a plan for all clients, which are asked once where all take part: all are ours."""
    plan = Plan(**{"min_clients": clients, **given})
    asked_once = plan.participation == 1 and not plan.quorum and not secure
    return replace(plan, one_question=plan.one_question or asked_once)


def write_clients(
    folder: Path, features: NDArray[Any], labels: NDArray[Any], partition: Partition
) -> int:
    """Write the clients as a folder that `sources` reads; return their number."""
    rows = np.argsort(partition.assignment, kind="stable")
    np.save(folder / "features.npy", features[rows])
    np.save(folder / "labels.npy", labels[rows])
    np.save(folder / "clients.npy", np.array(partition.client_ids)[partition.assignment[rows]])
    return len(np.unique(partition.assignment))


def run(
    settings: Settings,
    nodes: int,
    advance: Callable[[int], None] = lambda steps: None,
    *,
    address: str = "",
) -> tuple[Head, CollectionReport]:
    """Run a federation over `nodes` SuperNodes that share the source of data that the job names.

    See `simulate`, which does this for arrays.
    """
    with _environment(), owner_only():
        from flwr.app import Context
        from flwr.serverapp import Grid, ServerApp
        from flwr.simulation import run_simulation

        from fedcof.federation.client_app import app as client_app
        from fedcof.federation.server_app import FlowerGrid

        # What goes wrong is in the report; Flower would print it across the progress bar.
        logging.getLogger("flwr").setLevel(logging.CRITICAL)
        server_app, outcome, stopped = ServerApp(), [], threading.Event()

        def sleep(seconds: float) -> None:
            if stopped.wait(seconds):
                raise InterruptedError("the simulation was stopped")

        @server_app.main()
        def main(grid: Grid, context: Context) -> None:
            run_federation = serve_securely if settings.secure.secure else serve
            head, report, _ = run_federation(
                FlowerGrid(grid), settings, advance=advance, sleep=sleep, pause=0.05
            )
            outcome.append((head, report))

        try:
            # Flower takes a Ray that is there as it is. Where it starts Ray itself, workers have an
            # environment that is made first, so that none can be started ahead.
            with running_ray(address):
                run_simulation(server_app, client_app, nodes, backend_config=A_CPU_EACH)
        finally:
            stopped.set()  # the ServerApp is in a thread, which Ctrl-C does not reach
        return outcome[0]


@contextmanager
def _environment() -> Iterator[None]:
    """Switch off warnings, let Ray's workers find what is found here, and undo it afterwards."""
    before = dict(os.environ)
    os.environ.update(QUIET | before, PYTHONPATH=os.pathsep.join(sys.path))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
