"""``fedcof datasets``: which data sets there are, and whether they are here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedcof.commands.options import COMPLETIONS, Data, Given, Seed, dealing_settings, with_settings
from fedcof.commands.shared import Json, console, errors_for_people, print_table

app = typer.Typer(
    no_args_is_help=True, help="Which data sets there are, and whether they are here."
)

Name = Annotated[
    str,
    typer.Argument(
        help="Name of the data set, or folder:PATH, or parquet:PATH.",
        autocompletion=COMPLETIONS["datasets"],
    ),
]


@app.command("list")
def list_(*, as_json: Json = False) -> None:
    """List the data sets."""
    from fedcof.data.datasets import DATASETS

    rows = [
        {
            "name": dataset.name,
            "what it is": dataset.title,
            "training": dataset.train,
            "test": dataset.test,
            "classes": dataset.classes,
            "also by": ", ".join(dataset.columns),
        }
        for dataset in DATASETS.values()
    ]
    print_table(rows, as_json=as_json)


@app.command()
@with_settings(dealing=dealing_settings)
def describe(name: Name, *, data: Data = None, seed: Seed = 0, dealing: Given) -> None:
    """Show what a data set is and which files it needs; if it is here, how partitions deal it."""
    from fedcof.data import datasets, dealings, describe_partition

    with errors_for_people():
        if ":" not in name:
            dataset = datasets.describe(name)
            hub = dataset.hub.id if dataset.hub else "no"
            facts = {
                "": dataset.title,
                "get it from": dataset.homepage,
                "in the data folder": "\n".join(map(str, dataset.wanted(Path()))),
                "on the hub": hub,
                "test set": dataset.split,
            }
            table = Table(box=None, show_header=False)
            for fact, value in facts.items():
                table.add_row(fact, value)
            console.print(table, highlight=False)
            if data is None and not dataset.packaged:
                return
        train, _ = datasets.load(name, data)
        table = Table("partition", title=f"{name}: {len(train):,} training images")
        headings = ("clients", "means M", "samples a client", "classes a client", "clients a class")
        for heading in headings:
            table.add_column(heading, justify="right")
        for scheme in dealings(train.columns, **dealing).values():
            partition = scheme.deal(train.labels, train.columns, seed)
            found = describe_partition(train.labels, partition)
            spreads = (found.samples_per_client, found.classes_per_client, found.clients_per_class)
            table.add_row(
                scheme.title,
                f"{found.clients:,}",
                f"{found.num_means:,}",
                *(f"{mean:,.1f} ({low:,.0f} to {high:,.0f})" for low, mean, high in spreads),
            )
        console.print(table)


@app.command()
def check(name: Name, data: Data = None) -> None:
    """Read a whole data set; name what is missing and every image that cannot be read."""
    from fedcof.data import datasets
    from fedcof.data.images import image_name, unreadable_images
    from fedcof.progress import progress_bar

    with errors_for_people():
        parts = datasets.only_images(*datasets.load(name, data))
        with progress_bar(f"Checking {name}", sum(map(len, parts)), unit="images") as advance:
            faults = [
                f"{image_name(images.images[row], row)}: {fault}"
                for images in parts
                for row, fault in unreadable_images(images.images, advance).items()
            ]
        for fault in faults:
            console.print(fault, highlight=False, markup=False)
        train, test = map(len, parts)
        console.print(
            f"{name}: {train:,} training images, {test:,} test images, "
            f"{len(parts[0].classes):,} classes; "
            + (f"{len(faults):,} images cannot be read" if faults else "all images can be read")
        )
        if faults:
            raise typer.Exit(1)
