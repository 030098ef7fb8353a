"""What the commands have in common."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape

from fedcof.errors import FedCOFError

if TYPE_CHECKING:
    from fedcof.backbones import Backbone
    from fedcof.data import ImageSet
    from fedcof.experiments import Dealt

console = Console()
error_console = Console(stderr=True)


@contextmanager
def errors_for_people() -> Iterator[None]:
    """Print what fedcof has to say without a traceback."""
    try:
        yield
    except (FedCOFError, ValueError, OSError, ImportError) as error:
        error_console.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        error_console.print("stopped; the same command goes on from here")
        raise typer.Exit(130) from None


def check_device(device: str) -> None:
    """Check that there is what training needs.

    Raises
    ------
    ValueError
        If torch or Flower is not installed, or torch does not see the device.
    """
    try:
        import flwr  # noqa: F401
        import torch
    except ImportError as error:
        raise ValueError(
            f"{error.name} is not installed: pip install 'fedcof[flower,torch]'"
        ) from None
    # The rounds are shown here; what Flower logs of its own is said twice.
    logging.getLogger("flwr").setLevel(logging.ERROR)
    if device != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"torch sees no device {device!r} here; take --device cpu")


def deal_images(
    train: ImageSet, test: ImageSet, backbone: Backbone, *, clients: int, alpha: float, seed: int
) -> Dealt:
    """Return the features of images, those to train on dealt to clients by the paper's scheme."""
    from fedcof.data import dirichlet, extract_features
    from fedcof.experiments import Dealt
    from fedcof.progress import progress_bar

    with progress_bar("Extracting features", len(train) + len(test), unit="images") as advance:
        train_features = extract_features(train.images, backbone, advance=advance)
        test_features = extract_features(test.images, backbone, advance=advance)
    labels = train.labels[train_features.kept]
    partition = dirichlet(labels, clients, alpha, seed=seed)
    for note in partition.notes:
        error_console.print(f"note: {note}")
    return Dealt(
        train_features.features,
        labels,
        partition,
        test_features.features,
        test.labels[test_features.kept],
    )
