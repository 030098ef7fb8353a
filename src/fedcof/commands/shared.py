"""What the commands have in common."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape

from fedcof.errors import FedCOFError, SettingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedcof.backbones import Backbone
    from fedcof.data import ImageSet, Partition
    from fedcof.experiments import Dealt

_WIDE = 160
"""Columns of what is not a terminal, a file or a pipe: no number is broken for want of space."""

console = Console(width=None if sys.stdout.isatty() else _WIDE)
error_console = Console(stderr=True, width=None if sys.stderr.isatty() else _WIDE)


@contextmanager
def errors_for_people() -> Iterator[None]:
    """Print an error without a traceback; a setting is named as the option that it is here."""
    try:
        yield
    except (FedCOFError, ValueError, OSError, ImportError) as error:
        text = str(error)
        if isinstance(error, SettingError):
            text = f"--{error.name.replace('_', '-')} {error.reason}"
        error_console.print(f"[bold red]error:[/] {escape(text)}", highlight=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        error_console.print("stopped; the same command goes on from here")
        raise typer.Exit(130) from None


def check_device(device: str) -> None:
    """Check that there is what training needs.

    Raises
    ------
    ValueError
        If torch is not installed, or does not see the device.
    """
    try:
        import torch
    except ImportError:
        raise ValueError("torch is not installed: pip install 'fedcof[torch]'") from None
    if device != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"torch sees no device {device!r} here; take --device cpu")


PARTITIONS = ("dirichlet", "class-wise", "iid")
"""How clients are made where no column of the data set says who they are."""


def deal(
    partition: str,
    labels: NDArray[Any],
    columns: Mapping[str, NDArray[Any]],
    *,
    clients: int,
    alpha: float,
    seed: int,
) -> Partition:
    """Return who holds what by one of `PARTITIONS`, or by a column of the data set."""
    from fedcof.data import by_column, dirichlet, hsu_dirichlet, iid

    if partition == "dirichlet":
        return dirichlet(labels, clients, alpha, seed=seed)
    if partition == "class-wise":
        return hsu_dirichlet(labels, clients, alpha, seed=seed)
    if partition == "iid":
        return iid(len(labels), clients, seed=seed)
    return by_column(columns[partition])


def partition_title(partition: str, alpha: float) -> str:
    """Return what a person calls one of the partitions of `deal`."""
    titles = {"dirichlet": f"Dirichlet {alpha:g}", "class-wise": f"class-wise {alpha:g}"}
    return titles.get(partition, partition if partition in PARTITIONS else f"by {partition}")


def deal_images(
    train: ImageSet,
    test: ImageSet,
    backbone: Backbone,
    *,
    partition: str = "dirichlet",
    clients: int,
    alpha: float,
    seed: int,
) -> Dealt:
    """Return the features of images, those to train on dealt to clients as by `deal`.

    Raises
    ------
    ValueError
        If there is no such partition; those that there are are listed.
    """
    from fedcof.data import extract_features
    from fedcof.experiments import Dealt
    from fedcof.progress import progress_bar

    if partition not in (known := [*PARTITIONS, *train.columns]):
        raise ValueError(f"no partition is called {partition!r}; there are {', '.join(known)}")
    with progress_bar("Extracting features", len(train) + len(test), unit="images") as advance:
        train_features = extract_features(train.images, backbone, advance=advance)
        test_features = extract_features(test.images, backbone, advance=advance)
    labels = train.labels[train_features.kept]
    columns = {name: column[train_features.kept] for name, column in train.columns.items()}
    dealt = deal(partition, labels, columns, clients=clients, alpha=alpha, seed=seed)
    for note in dealt.notes:
        error_console.print(f"note: {note}")
    return Dealt(
        train_features.features,
        labels,
        dealt,
        test_features.features,
        test.labels[test_features.kept],
        backbone.origin,
    )
