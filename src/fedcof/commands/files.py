"""``fedcof summarize`` and ``fedcof solve``: a round by files, for sites that no network joins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from fedcof.commands.shared import console, error_console, errors_for_people, method_with

SUFFIX = ".summary"

MethodName = Annotated[str, typer.Option("--method", help="Name of the method.")]


def summarize(
    source: Annotated[
        Path, typer.Argument(help="Folder of images (a sub-folder a class), .npz or .parquet file.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder for a file a client.")] = Path(),
    client_id: Annotated[
        str, typer.Option(help="The site's name, where the source names no clients.")
    ] = "site",
    method: MethodName = "fedcof",
    means_per_class: Annotated[
        int, typer.Option(min=1, help="Means of random sets that a class may have (fedcof).")
    ] = 1,
    backbone: Annotated[str, typer.Option(help="Name of the backbone for images.")] = (
        "squeezenet1.1"
    ),
    seed: Annotated[int, typer.Option(help="Seeds the random sets.")] = 0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at an image that cannot be read.")
    ] = False,
) -> None:
    """Write what each client of a site would send: all that leaves the site."""
    from fedcof.client import Sender
    from fedcof.federation.sources import extract, read_clients
    from fedcof.files import write_atomically
    from fedcof.progress import progress_bar

    with errors_for_people():
        chosen = method_with(
            method, means_per_class=means_per_class if means_per_class > 1 else None
        )
        out.mkdir(parents=True, exist_ok=True)
        sender = Sender(chosen, seed)
        for name, (data, labels) in read_clients(source, client_id).items():
            with progress_bar(f"Features of {name}", len(labels), unit="samples") as advance:
                found = extract(data, labels, backbone, strict=strict, advance=advance)
            sent = sender.send(found.features, found.labels, client_id=name, origin=found.origin)
            path = out / f"{quote(name, safe=' ')}{SUFFIX}"
            if sent is None:
                console.print(f"{name}: nothing is left to send")
                continue
            write_atomically(path, sent.data)
            console.print(
                f"{path}: {len(found.labels)} samples, {sent.wire_bytes:,} bytes", highlight=False
            )


def solve(
    files: Annotated[list[Path], typer.Argument(help="The files that `fedcof summarize` wrote.")],
    *,
    out: Annotated[Path, typer.Option(help="The head's file.")] = Path("head.safetensors"),
    method: MethodName = "fedcof",
    shrinkage: Annotated[float | None, typer.Option(help="Added to every covariance.")] = None,
    ridge: Annotated[float | None, typer.Option(help="The regulariser of fed3r.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a file that is not a good summary.")
    ] = False,
) -> None:
    """Solve a head from the files of all sites; a bad file is named and set aside."""
    from fedcof.errors import SummaryError
    from fedcof.summaries import load

    with errors_for_people():
        chosen = method_with(method, shrinkage=shrinkage, ridge=ridge)
        summaries = []
        for path in files:
            try:
                summaries.append(load(path))
            except SummaryError as error:
                if strict:
                    raise
                error_console.print(f"set aside: {error}", markup=False, highlight=False)
        head = chosen.solve(summaries)
        head.save(out)
        console.print(f"{out}: {len(head.classes)} classes from {len(summaries)} files")
