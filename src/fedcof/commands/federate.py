"""``fedcof federate``: the demo's job over Flower."""

from __future__ import annotations

import importlib.util
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from fedcof.commands.shared import console, deal_images, errors_for_people


class Engine(StrEnum):
    """What runs the clients."""

    SIMULATION = "simulation"
    IN_PROCESS = "in-process"


def federate(
    *,
    clients: Annotated[
        int, typer.Option(min=1, help="Number of clients, unless a column names them.")
    ] = 100,
    engine: Annotated[
        Engine, typer.Option(help="Flower's simulation, or this process.")
    ] = Engine.SIMULATION,
    method: Annotated[str, typer.Option(help="Name of the method.")] = "fedcof",
    dataset: Annotated[str, typer.Option(help="Name of the data set.")] = "fashion-mnist",
    data: Annotated[
        str | None,
        typer.Option(envvar="FEDCOF_DATA", help="Folder with the data sets, or 'hub'."),
    ] = None,
    backbone: Annotated[str, typer.Option(help="Name of the backbone.")] = "squeezenet1.1",
    partition: Annotated[
        str,
        typer.Option(help="dirichlet, class-wise, iid, or a column that names clients, as user."),
    ] = "dirichlet",
    alpha: Annotated[
        float, typer.Option(help="Dirichlet concentration; small: few classes a client.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(help="Seeds the split and the partition.")] = 0,
    images: Annotated[int, typer.Option(help="How many of Fashion-MNIST's images to take.")] = 6000,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="SuperNodes for the clients; default: one each.")
    ] = None,
    fraction: Annotated[float, typer.Option(help="Share of the clients that a round asks.")] = 1.0,
    run_folder: Annotated[
        Path, typer.Option(help="Folder for head and report; the same one again goes on.")
    ] = Path("fedcof-federation"),
) -> None:
    """Run the demo's job over Flower: the same head, bit for bit, as in one process."""
    from fedcof.backbones import get
    from fedcof.data import fashion_mnist, get_dealing
    from fedcof.data.datasets import load
    from fedcof.experiments import evaluate
    from fedcof.methods import get_method
    from fedcof.progress import progress_bar

    with errors_for_people():
        chosen = get_method(method)
        if engine is Engine.SIMULATION and importlib.util.find_spec("flwr") is None:
            raise ValueError("Flower is not installed: pip install 'fedcof[flower]'")
        demo = dataset == "fashion-mnist"
        train, test = fashion_mnist(images, seed=seed) if demo else load(dataset, data)
        dealing = get_dealing(partition, train.columns, clients=clients, alpha=alpha)
        dealt = deal_images(train, test, get(backbone), dealing, seed=seed)
        holders = len(np.unique(dealt.partition.assignment))
        start = time.perf_counter()
        with progress_bar("Summarizing", holders, unit="clients") as advance:
            if engine is Engine.SIMULATION:
                from fedcof.federation.simulation import simulate

                head, report = simulate(
                    chosen,
                    dealt.features,
                    dealt.labels,
                    dealt.partition,
                    run_folder,
                    seed=seed,
                    nodes=nodes,
                    fraction=fraction,
                    data_is={
                        "dataset": dataset,
                        "images": len(dealt.labels),
                        "features": backbone,
                        "clients": holders,
                        "partition": dealing.title,
                    },
                    origin=dealt.origin,
                    advance=advance,
                )
                rounds, wire_bytes = report.rounds, report.wire_bytes
            else:
                result, head = evaluate(chosen, dealt, seed=seed, advance=advance)
                rounds, wire_bytes = 1, result.wire_bytes
                run_folder.mkdir(parents=True, exist_ok=True)
                head.save(run_folder / "head.safetensors")
        seconds = time.perf_counter() - start

        assert head.provenance is not None
        table = Table(title=f"{dataset}, {holders} clients, {dealing.title}, seed {seed}")
        for name, value in {
            "method": method,
            "engine": engine.value,
            "accuracy": f"{100 * head.score(dealt.test_features, dealt.test_labels):.1f} %",
            "clients in the head": f"{head.provenance.clients:,}",
            "rounds": str(rounds),
            "sent (formula)": f"{head.provenance.formula_bytes / 1e6:.2f} MB",
            "sent in this run": f"{wire_bytes / 1e6:.2f} MB",
            "time": f"{seconds:.1f} s",
        }.items():
            table.add_row(name, value)
        console.print(table)
        console.print("saved in:", run_folder)
