"""``fedcof summarize``: what leaves a site, as files, for sites that no network joins."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    site_settings,
    with_settings,
)
from fedcof.commands.shared import EXIT_LEFT_OUT, errors_for_people, note, say
from fedcof.errors import SummaryError

if TYPE_CHECKING:
    from fedcof.client import Sender, Sent
    from fedcof.federation.sources import Extracted
    from fedcof.privacy import Policy

SUFFIX = ".summary"


@with_settings(
    reading=reading_settings,
    hyperparameters=partial(hyperparameters, client=True),
    sending=sending_settings,
    site=site_settings,
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
    policy: Annotated[
        Path | None,
        typer.Option(help="The site's policy, a TOML file: what it does not allow is not sent."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would leave; write nothing.")
    ] = False,
    force: Force = False,
    reading: Given,
    hyperparameters: Given,
    sending: Given,
    site: Given,
) -> None:
    """Write what each client of a site would send: all that leaves the site."""
    from fedcof.backbones import transform_for, with_weights
    from fedcof.client import Sender, parse_steps
    from fedcof.codings import AUTO, Float32
    from fedcof.data import Reading, read
    from fedcof.federation.sources import extract
    from fedcof.files import file_names, write_new
    from fedcof.privacy.policy import stated_policy
    from fedcof.progress import progress_bar
    from fedcof.scale.writing import append as add_to
    from fedcof.summaries import Summary, from_bytes
    from fedcof.summaries.arrow import import_arrow

    with errors_for_people():
        allowed = stated_policy(policy, site)
        backbone = with_weights(backbone, weights)
        sender = Sender(
            method_with(method, hyperparameters), seed, **sending, steps=parse_steps(steps)
        )
        own = read(source, Reading(**reading))
        made_by = "" if own.are_features else backbone
        sender = replace(sender, transform=transform_for(transform, made_by))
        allowed.check(sender, backbone=made_by)
        for line in own.left_out.lines():
            note(line)
        if append is not None:
            import_arrow()  # before anything is computed
        elif not dry_run:
            out.mkdir(parents=True, exist_ok=True)
        added: list[Summary] = []
        clients = own.by_client(client_id)
        names = file_names(clients, SUFFIX)
        left_out = own.left_out.count
        for name, (data, labels) in clients.items():
            with progress_bar(f"Features of {name}", len(labels), unit="samples") as advance:
                found = extract(data, labels, backbone, strict=strict, advance=advance)
            left_out += len(labels) - len(found.labels)
            sent = _what_leaves(
                allowed,
                sender,
                name,
                found._replace(origin={**own.origin, **found.origin}),
                backbone=made_by,
                dry_run=dry_run,
            )
            if sent is None:
                left_out += len(found.labels)
                continue
            if dry_run:
                continue
            path = out / names[name]
            if append is None:
                write_new(path, sent.data, replace=force)
            else:
                added.append(from_bytes(sent.data))
            samples = len(found.labels) - sent.withheld.samples
            say(
                f"{path if append is None else name}: {samples:,} samples, "
                f"{sent.formula_bytes:,} bytes by formula, {sent.wire_bytes:,} on the wire"
            )
        if append is not None and not dry_run:
            coding = Float32.name if sender.coding == AUTO else sender.coding
            say(f"{add_to(append, added, coding=coding) or append}: {len(added):,} clients added")
        if left_out:
            raise typer.Exit(EXIT_LEFT_OUT)


def _what_leaves(
    allowed: Policy,
    sender: Sender,
    client_id: str,
    found: Extracted,
    *,
    backbone: str,
    dry_run: bool,
) -> Sent | None:
    """Return what a client sends, and say it; None where nothing is left.

    Unless it is only tried, what the client loses by it is written down.
    """
    from fedcof.privacy.policy import WITHHELD, local_guarantee

    try:
        sent = allowed.send(
            sender,
            found.features,
            found.labels,
            backbone=backbone,
            client_id=client_id,
            origin=found.origin,
        )
    except SummaryError as error:
        if error.code != WITHHELD:
            raise
        say(f"{client_id}: nothing is left to send, so there is no file")
        return None
    say(f"{client_id}: {sent}; steps: {allowed.guarded(sender).steps_in_words}")
    if not dry_run:
        allowed.spend(
            client_id, local_guarantee(sender), release=f"summary for {sender.method.name}"
        )
    return sent
