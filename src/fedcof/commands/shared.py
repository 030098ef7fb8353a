"""What the commands have in common: how they print, warn, fail and end.

A command prints lines with `say` and `note`, tables with `print_table` or `print_result`; none
reads markup in what it prints, for names of clients, classes and files are other people's. It runs
within `errors_for_people`, and ends with 0 where all was done, 1 where it was refused or failed,
`EXIT_LEFT_OUT` where it was done but something was set aside, and 130 where it was stopped.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fedcof.errors import FedCOFError, SettingError, reason_of
from fedcof.installation import install_line

if TYPE_CHECKING:
    from fedcof.backbones.engine import Device
    from fedcof.data import Dealing, FeatureTable, ImageSet
    from fedcof.experiments import Dealt
    from fedcof.scale.ray_engine import Engine

EXIT_LEFT_OUT = 3
"""The exit status of a command that was done, but set something aside or left something out."""

GOES_ON = "the same command goes on from here"
"""What is said of a command that is stopped, and keeps what it has done."""

_WIDE = 160
"""Columns of a table in a file or a pipe, so that no number is broken over two lines."""

console = Console(width=None if sys.stdout.isatty() else _WIDE)
error_console = Console(stderr=True, width=None if sys.stderr.isatty() else _WIDE)

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output instead.")
]

Row = Mapping[str, Any]
"""The cells of a line by their column: texts, numbers, or None for an empty cell."""


def say(text: str, *, as_json: bool = False) -> None:
    """Print a line as it is; on standard error where standard output is for a JSON document.

    A line that cannot be printed (a closed pipe, a full disk) stops nothing.
    """
    with suppress(OSError):
        _write(f"{text}\n", sys.stderr if as_json else sys.stdout)


def note(text: str) -> None:
    """Print a line as it is on standard error: what is not what was asked for."""
    with suppress(OSError):
        _write(f"{text}\n", sys.stderr)


def print_table(
    rows: Sequence[Row], *, title: str = "", document: Any = None, as_json: bool = False
) -> None:
    """Print rows as a table; as JSON, print a document, which is the rows if none is given.

    Parameters
    ----------
    rows : sequence of mappings
        The lines of the table. Texts stand left, numbers right, with commas between thousands; a
        number may be a text already.
    title : str, default ""
    document : object, optional
        What JSON has in their place: numbers that are not rounded, and names of keys for programs.
    as_json : bool, default False
        The command's option ``--json``, of the type `Json`.

    Examples
    --------
    >>> print_table([{"client": "north", "samples": 1200}], as_json=True)
    [{"client": "north", "samples": 1200}]
    """
    print_result(rows if document is None else document, table_of(rows, title), as_json=as_json)


def print_result(document: Any, *shown: RenderableType, as_json: bool) -> None:
    """Print one JSON document, or else what people are shown in its place.

    NumPy's numbers and arrays, paths and dataclasses are written as JSON has them, and a number
    that is not finite as null.
    """
    if as_json:
        with suppress(BrokenPipeError):
            _write(json.dumps(_as_json(document), ensure_ascii=False) + "\n", sys.stdout)
        return
    with console.capture() as captured:
        for renderable in shown:
            console.print(Text(renderable) if isinstance(renderable, str) else renderable)
    with suppress(OSError):
        _write(captured.get(), sys.stdout)


@contextmanager
def redrawn() -> Iterator[Callable[..., None]]:
    """Yield a function that shows what it is given in the place of what it showed before."""
    with Live(console=console, auto_refresh=False) as live:
        yield lambda *shown: live.update(Group(*shown), refresh=True)


def table_of(rows: Sequence[Row], title: str = "") -> Table:
    """Return rows as a table of the terminal; its columns are those of the first row."""
    table = Table(title=Text(title) if title else None, box=box.SIMPLE_HEAD)
    for heading in rows[0] if rows else ():
        cells = [row[heading] for row in rows]
        numbers = all(
            cell is None or _is_number(cell) or _NUMBER.fullmatch(str(cell)) for cell in cells
        )
        table.add_column(Text(heading), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_as_text(cell)) for cell in row.values()))
    return table


def fits(shown: RenderableType) -> bool:
    """Return whether all columns of what is shown have their full width in the terminal."""
    any_width = console.options.update(width=1000)
    return console.measure(shown, options=any_width).maximum <= console.width


_NUMBER = re.compile(r"[-+\N{MINUS SIGN}]?\d[\d,]*(\.\d+)?")


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float | np.number) and not isinstance(cell, bool)


def _as_text(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:,}" if _is_number(cell) else str(cell)


def _as_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _write(text: str, stream: IO[str]) -> None:
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        # What is left in the buffer must not fail again when Python ends.
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
        raise


@contextmanager
def warnings_for_people() -> Iterator[None]:
    """Print warnings as lines of text, without the place in the source."""
    with warnings.catch_warnings():
        # Of pictures that are read all the same; one that is not is named by an error of ours.
        warnings.filterwarnings("ignore", "Image size .* decompression bomb")
        warnings.filterwarnings("ignore", module=r"pydicom\.")
        warnings.showwarning = lambda message, *place: print(f"warning: {message}", file=sys.stderr)
        yield


@contextmanager
def errors_for_people(stopped: str = GOES_ON) -> Iterator[None]:
    """Print an error without a traceback; a setting is named as the option that it is here.

    Parameters
    ----------
    stopped : str
        What is said where somebody stops the command.
    """
    try:
        yield
    except (FedCOFError, ValueError, OSError, ImportError) as error:
        text = reason_of(error)
        if isinstance(error, SettingError):
            text = f"--{error.name.replace('_', '-')} {error.reason}"
        error_console.print(Text.assemble(("error:", "bold red"), f" {text}"), soft_wrap=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        note(f"stopped; {stopped}")
        raise typer.Exit(130) from None


def check_address(address: str, engine: str) -> None:
    """Refuse the address of a cluster of Ray where another engine computes."""
    if address and engine != "ray":
        raise SettingError("address", "is that of a cluster of Ray: it needs --engine ray")


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


def deal_samples(
    train: ImageSet | FeatureTable,
    test: ImageSet | FeatureTable,
    backbone: str,
    dealing: Dealing,
    *,
    seed: int,
    preprocessing: Mapping[str, Any] | None = None,
    device: Device = "auto",
    engine: Engine[Any, Any] | None = None,
) -> Dealt:
    """Return features, those to train on dealt to clients; the backbone makes them of images.

    Where an engine is given, its workers extract the features.
    """
    from fedcof.data import ByColumn, FeatureTable, extract_features
    from fedcof.data.reading.columns import CLIENTS
    from fedcof.experiments import Dealt
    from fedcof.progress import progress_bar

    origin: Mapping[str, str] = {}
    tables = [part for part in (train, test) if isinstance(part, FeatureTable)]
    images = [part for part in (train, test) if not isinstance(part, FeatureTable)]
    if images:
        from fedcof.backbones import get
        from fedcof.data.images import window_of

        network = get(backbone, device, preprocessing=preprocessing)
        window = window_of(images[0].images)
        origin = network.origin if window is None else {**network.origin, "window": str(window)}
        with progress_bar("Extracting features", sum(map(len, images)), unit="images") as advance:
            for part in images:
                if engine is None:
                    found = extract_features(part.images, network, advance=advance)
                else:
                    from fedcof.scale import extraction

                    recipe = extraction.Recipe(backbone, preprocessing or {})
                    found = extraction.extract_features(
                        part.images, recipe, engine, advance=advance
                    )
                kept = part.subset(found.kept)
                tables.append(FeatureTable(found.features, kept.labels, kept.classes, kept.columns))
    first, second = tables
    partition = dealing.deal(first.labels, first.columns, seed)
    owners = [name for name in first.columns if name.casefold() in CLIENTS]
    unused = [name for name in owners if dealing.title != ByColumn(name).title]
    notes = [f"{name!r} says whose a row is: --partition {name} deals by it" for name in unused]
    for text in [*partition.notes, *notes]:
        note(f"note: {text}")
    return Dealt(first.features, first.labels, partition, second.features, second.labels, origin)
