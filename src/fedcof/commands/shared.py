"""What the commands have in common."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape

from fedcof.errors import FedCOFError, SettingError
from fedcof.installation import install_line

if TYPE_CHECKING:
    from fedcof.backbones import Backbone
    from fedcof.data import Dealing, ImageSet
    from fedcof.experiments import Dealt

_WIDE = 160
"""Columns of output to a file or a pipe, so that no number is broken over two lines."""

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
        raise ValueError(f"torch is not installed: {install_line('torch')}") from None
    if device != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"torch sees no device {device!r} here; take --device cpu")


def deal_images(
    train: ImageSet, test: ImageSet, backbone: Backbone, dealing: Dealing, *, seed: int
) -> Dealt:
    """Return the features of images, those to train on dealt to clients."""
    from fedcof.data import extract_features
    from fedcof.experiments import Dealt
    from fedcof.progress import progress_bar

    with progress_bar("Extracting features", len(train) + len(test), unit="images") as advance:
        train_features = extract_features(train.images, backbone, advance=advance)
        test_features = extract_features(test.images, backbone, advance=advance)
    labels = train.labels[train_features.kept]
    columns = {name: column[train_features.kept] for name, column in train.columns.items()}
    partition = dealing.deal(labels, columns, seed)
    for note in partition.notes:
        error_console.print(f"note: {note}")
    return Dealt(
        train_features.features,
        labels,
        partition,
        test_features.features,
        test.labels[test_features.kept],
        backbone.origin,
    )
