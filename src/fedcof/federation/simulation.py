"""A federation on this machine: the server, and SuperNodes that are processes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.client import Sender
from fedcof.data import Partition
from fedcof.federation.local_grid import LocalGrid
from fedcof.federation.plan import Plan
from fedcof.federation.records import Job
from fedcof.federation.report import CollectionReport
from fedcof.federation.secure.plan import SecurePlan
from fedcof.federation.secure.serving import serve_securely
from fedcof.federation.serving import Settings, serve
from fedcof.files import owner_only
from fedcof.heads import Head


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
        return run(settings, min(nodes or clients, clients), advance)


def _plan(clients: int, given: Mapping[str, Any], *, secure: bool) -> Plan:
    """Return a plan for all clients, which are asked once where all take part: all are ours."""
    some = given.get("participation", 1) < 1 or given.get("quorum", 0)
    return Plan(**{"min_clients": clients, "one_question": not (some or secure), **given})


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
    settings: Settings, nodes: int, advance: Callable[[int], None] = lambda steps: None
) -> tuple[Head, CollectionReport]:
    """Run a federation over `nodes` SuperNodes that share the source of data that the job names.

    See `simulate`, which does this for arrays.
    """
    run_federation = serve_securely if settings.secure.secure else serve
    with owner_only(), LocalGrid(nodes) as grid:
        head, report, _ = run_federation(grid, settings, advance=advance, pause=0.01)
        return head, report
