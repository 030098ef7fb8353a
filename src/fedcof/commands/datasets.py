"""``fedcof datasets``: which data sets there are, and whether they are here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcof.commands.options import COMPLETIONS, Data, Given, Seed, dealing_settings, with_settings
from fedcof.commands.shared import Json, errors_for_people, print_result, print_table, say, table_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fedcof.data import FeatureTable, ImageSet

app = typer.Typer(
    no_args_is_help=True, help="Which data sets there are, and whether they are here."
)

Name = Annotated[
    str,
    typer.Argument(
        help="Name of the data set, or folder:PATH, or table:PATH.",
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
def describe(
    name: Name, *, data: Data = None, seed: Seed = 0, as_json: Json = False, dealing: Given
) -> None:
    """Show what a data set is and which files it needs; if it is here, how partitions deal it."""
    from fedcof.data import datasets

    with errors_for_people():
        document: dict[str, Any] = {"name": name}
        shown: list[RenderableType] = []
        here = True
        if ":" not in name:
            dataset = datasets.describe(name)
            here = data is not None or dataset.packaged is not None
            facts = {
                "what it is": dataset.title,
                "get it from": dataset.homepage,
                "in the data folder": list(map(str, dataset.wanted(Path()))),
                "on the hub": dataset.hub.id if dataset.hub else None,
                "test set": dataset.split,
            }
            document |= facts
            rows = [{"": fact, name: _cell(value)} for fact, value in facts.items()]
            shown.append(table_of(rows))
        if here:
            train, _ = datasets.load(name, data)
            document |= {"training": len(train), "partitions": _partitions(train, seed, dealing)}
            rows = [
                {column: _cell(value) for column, value in partition.items()}
                for partition in document["partitions"]
            ]
            shown.append(table_of(rows, f"{name}: {len(train):,} training images"))
        print_result(document, *shown, as_json=as_json)


def _partitions(train: ImageSet | FeatureTable, seed: int, dealing: Given) -> list[dict[str, Any]]:
    """Return what each scheme makes of the samples; of what varies the least, mean and most."""
    from fedcof.data import dealings, describe_partition

    rows = []
    for scheme in dealings(train.columns, **dealing).values():
        found = describe_partition(train.labels, scheme.deal(train.labels, train.columns, seed))
        rows.append(
            {
                "partition": scheme.title,
                "clients": found.clients,
                "means M": found.num_means,
                "samples a client": found.samples_per_client,
                "classes a client": found.classes_per_client,
                "clients a class": found.clients_per_class,
            }
        )
    return rows


def _cell(value: Any) -> Any:
    """Return what is shown of a fact: of a list every entry, of three numbers the mean first."""
    if isinstance(value, list):
        return "\n".join(value)
    if isinstance(value, tuple):
        low, mean, high = value
        return f"{mean:,.1f} ({low:,.0f} to {high:,.0f})"
    return "no" if value is None else value


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
            say(fault)
        train, test = map(len, parts)
        say(
            f"{name}: {train:,} training images, {test:,} test images, "
            f"{len(parts[0].classes):,} classes; "
            + (f"{len(faults):,} images cannot be read" if faults else "all images can be read")
        )
        if faults:
            raise typer.Exit(1)
