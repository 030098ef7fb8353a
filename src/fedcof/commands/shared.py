"""What the commands have in common."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape

from fedcof.errors import FedCOFError

if TYPE_CHECKING:
    from fedcof.backbones import Backbone
    from fedcof.data import Dealing, ImageSet
    from fedcof.experiments import Dealt
    from fedcof.methods import Method

_WIDE = 160
"""Columns of what is not a terminal, a file or a pipe: no number is broken for want of space."""

console = Console(width=None if sys.stdout.isatty() else _WIDE)
error_console = Console(stderr=True, width=None if sys.stderr.isatty() else _WIDE)


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
    if device != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"torch sees no device {device!r} here; take --device cpu")


def quiet_flower() -> None:
    """Leave the errors alone of what Flower logs: the rounds are shown by the commands."""
    # A filter, as Flower sets its level when it is imported.
    logging.getLogger("flwr").addFilter(_is_error)


def _is_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


def method_with(name: str, **given: Any) -> Method[Any]:
    """Return the method with the hyperparameters that were given, those that are not None.

    Raises
    ------
    ValueError
        If there is no such method, or it has no such hyperparameter.
    """
    from fedcof.methods import get_method

    chosen = get_method(name)
    known = {field.name for field in fields(chosen)}
    asked = {key: value for key, value in given.items() if value is not None}
    for key in asked.keys() - known:
        raise ValueError(f"the method {name} has no {key.replace('_', '-')}")
    return get_method(name, **asked)


def deal_images(
    train: ImageSet,
    test: ImageSet,
    backbone: Backbone,
    dealing: Dealing,
    *,
    seed: int,
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
