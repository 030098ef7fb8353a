"""``fedcof summarize``: what leaves a site, as files, for sites that no network joins."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedcof.commands.options import (
    COMPLETIONS,
    Force,
    Given,
    MethodName,
    Seed,
    StepsText,
    TransformText,
    Weights,
    hyperparameters,
    method_with,
    out_folder,
    reading_settings,
    sending_settings,
    with_settings,
)
from fedcof.commands.shared import EXIT_LEFT_OUT, errors_for_people, note, say

SUFFIX = ".summary"


@with_settings(
    reading=reading_settings,
    hyperparameters=partial(hyperparameters, client=True),
    sending=sending_settings,
)
def summarize(
    source: Annotated[
        str,
        typer.Argument(
            help="Folder of images, a sub-folder a class; or a table: CSV, Parquet, Arrow, "
            "npz, npy, safetensors, or a folder of them."
        ),
    ],
    *,
    out: Annotated[Path, out_folder("the summaries, a file a client")] = Path(),
    append: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            file_okay=False,
            help="In place of a file a client: one Parquet file of all, added to this data set.",
        ),
    ] = None,
    client_id: Annotated[
        str, typer.Option(help="The site's name, where the source names no clients.")
    ] = "site",
    method: MethodName = "fedcof",
    backbone: Annotated[
        str,
        typer.Option(
            help="Name of the backbone for images.", autocompletion=COMPLETIONS["backbones"]
        ),
    ] = ("squeezenet1.1"),
    weights: Weights = "",
    transform: TransformText = "none",
    steps: StepsText = "none",
    seed: Seed = 0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at an image that cannot be read.")
    ] = False,
    force: Force = False,
    reading: Given,
    hyperparameters: Given,
    sending: Given,
) -> None:
    """Write what each client of a site would send: all that leaves the site."""
    import numpy as np

    from fedcof.backbones import transform_for, with_weights
    from fedcof.client import Sender, parse_steps
    from fedcof.codings import AUTO, Float32
    from fedcof.data import Reading, read
    from fedcof.federation.sources import extract
    from fedcof.files import file_names, write_new
    from fedcof.progress import progress_bar
    from fedcof.scale.writing import append as add_to
    from fedcof.summaries import Summary, from_bytes
    from fedcof.summaries.arrow import import_arrow

    with errors_for_people():
        backbone = with_weights(backbone, weights)
        sender = Sender(
            method_with(method, hyperparameters), seed, **sending, steps=parse_steps(steps)
        )
        own = read(source, Reading(**reading))
        made_by = "" if own.are_features else backbone
        sender = replace(sender, transform=transform_for(transform, made_by))
        for line in own.left_out.lines():
            note(line)
        if append is None:
            out.mkdir(parents=True, exist_ok=True)
        else:
            import_arrow()  # before anything is computed
        added: list[Summary] = []
        clients = own.by_client(client_id)
        names = file_names(clients, SUFFIX)
        left_out = own.left_out.count
        for name, (data, labels) in clients.items():
            with progress_bar(f"Features of {name}", len(labels), unit="samples") as advance:
                found = extract(data, labels, backbone, strict=strict, advance=advance)
            sent = sender.send(
                found.features,
                found.labels,
                client_id=name,
                origin={**own.origin, **found.origin},
                noise=np.random.default_rng(),
            )
            left_out += len(labels) - len(found.labels)
            if sent is None:
                say(f"{name}: nothing is left to send, so there is no file")
                left_out += len(found.labels)
                continue
            path = out / names[name]
            if append is None:
                write_new(path, sent.data, replace=force)
            else:
                added.append(from_bytes(sent.data))
            say(
                f"{path if append is None else name}: {len(found.labels):,} samples, "
                f"{sent.formula_bytes:,} bytes by formula, {sent.wire_bytes:,} on the wire"
            )
        if append is not None:
            coding = Float32.name if sender.coding == AUTO else sender.coding
            say(f"{add_to(append, added, coding=coding)}: {len(added):,} clients added")
        if left_out:
            raise typer.Exit(EXIT_LEFT_OUT)
