"""``fedcof summarize``: what leaves a site, as files, for sites that no network joins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from fedcof.client import Held, Sender, Sent
    from fedcof.data.reading import OwnData
    from fedcof.data.reading.own_data import Data
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
    import numpy as np

    from fedcof.backbones import transform_for, with_weights
    from fedcof.client import Sender, a_few_at_a_time, parse_steps
    from fedcof.codings import AUTO, Float32
    from fedcof.data import Reading, read
    from fedcof.files import file_names, write_new
    from fedcof.privacy.policy import stated_policy
    from fedcof.scale.writing import append as add_to
    from fedcof.summaries import Summary
    from fedcof.summaries.arrow import import_arrow
    from fedcof.summaries.together import from_bytes_together

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
        clients = own.by_client(client_id)
        names = file_names(clients, SUFFIX)
        summarized, added, added_clients = 0, list[Summary](), 0
        for few in a_few_at_a_time(_held(own, clients, backbone, strict=strict)):
            leaving = list(_leaving(allowed, sender, few, backbone=made_by, dry_run=dry_run))
            summarized += sum(np.size(held.labels) for held, _ in leaving)
            if dry_run:
                continue
            for held, sent in leaving:
                path = out / names[held.client_id]
                if append is None:
                    write_new(path, sent.data, replace=force)
                say(
                    f"{path if append is None else held.client_id}: "
                    f"{np.size(held.labels) - sent.withheld.samples:,} samples, "
                    f"{sent.formula_bytes:,} bytes by formula, {sent.wire_bytes:,} on the wire"
                )
            if append is not None and leaving:
                added += from_bytes_together([sent.data for _, sent in leaving])
                added_clients += len(leaving)
        if append is not None and not dry_run:
            coding = Float32.name if sender.coding == AUTO else sender.coding
            say(
                f"{add_to(append, added, coding=coding) or append}: {added_clients:,} clients added"
            )
        if own.left_out.count or summarized < len(own):
            raise typer.Exit(EXIT_LEFT_OUT)


def _leaving(
    allowed: Policy, sender: Sender, clients: Sequence[Held], *, backbone: str, dry_run: bool
) -> Iterator[tuple[Held, Sent]]:
    """Say what leaves clients, and yield it; unless it is only tried, what they lose is noted."""
    from fedcof.privacy.policy import local_guarantee

    guarantee, steps = local_guarantee(sender), allowed.guarded(sender).steps_in_words
    release = f"summary for {sender.method.name}"
    for held, sent in zip(
        clients, allowed.send_each(sender, clients, backbone=backbone), strict=True
    ):
        if sent is None:
            say(f"{held.client_id}: nothing is left to send, so there is no file")
            continue
        say(f"{held.client_id}: {sent}; steps: {steps}")
        if not dry_run:
            allowed.spend(held.client_id, guarantee, release=release)
        yield held, sent


def _held(
    own: OwnData, clients: Mapping[str, tuple[Data, Any]], backbone: str, *, strict: bool
) -> Iterator[Held]:
    """Yield what each client holds, with a progress bar where the features have to be made."""
    from fedcof.client import Held
    from fedcof.federation.sources import extract
    from fedcof.progress import progress_bar

    for name, (data, labels) in clients.items():
        if own.are_features:
            found = extract(data, labels, backbone)
        else:
            with progress_bar(f"Features of {name}", len(labels), unit="samples") as advance:
                found = extract(data, labels, backbone, strict=strict, advance=advance)
        yield Held(found.features, found.labels, name, {**own.origin, **found.origin})
