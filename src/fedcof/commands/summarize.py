"""``fedcof summarize``: what leaves a site, as files, for sites that no network joins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
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
    from fedcof.summaries import Summary

    Leaving = Iterator[list[tuple[Held, Sent]]]
    """What leaves a few clients at a time."""

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
    from fedcof.files import file_names
    from fedcof.privacy.policy import local_guarantee, stated_policy
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
        clients = own.by_client(client_id)
        held = _held(own, clients, backbone, strict=strict)
        leaving = _leaving(allowed, sender, held, backbone=made_by)
        guarantee = local_guarantee(sender)
        spend = partial(
            allowed.spend, guarantee=guarantee, release=f"summary for {sender.method.name}"
        )
        if dry_run:
            summarized = sum(_samples_of(held) for few in leaving for held, _ in few)
        elif append is None:
            names = file_names(clients, SUFFIX)
            paths = {name: out / names[name] for name in names}
            summarized = _write(leaving, spend, paths, replace=force)
        else:
            for name in clients:  # all are added, or none
                allowed.check_left(name, guarantee)
            coding = Float32.name if sender.coding == AUTO else sender.coding
            summarized = _append(leaving, spend, append, coding)
        if own.left_out.count or summarized < len(own):
            raise typer.Exit(EXIT_LEFT_OUT)


def _write(
    leaving: Leaving, spend: Callable[[str], None], paths: Mapping[str, Path], *, replace: bool
) -> int:
    """Write a file a client; return how many samples were summarized."""
    from fedcof.files import write_new

    summarized = 0
    for few in leaving:
        for held, sent in few:
            path = paths[held.client_id]
            spend(held.client_id)
            write_new(path, sent.data, replace=replace)
            _say_sizes(str(path), held, sent)
            summarized += _samples_of(held)
    return summarized


def _append(leaving: Leaving, spend: Callable[[str], None], folder: Path, coding: str) -> int:
    """Add all clients to a data set; return how many samples were summarized."""
    from fedcof.scale.writing import append
    from fedcof.summaries.together import from_bytes_together

    clients = summarized = 0

    def arriving() -> Iterator[Summary]:
        nonlocal clients, summarized
        for few in leaving:
            for held, sent in few:
                spend(held.client_id)
                _say_sizes(held.client_id, held, sent)
                summarized += _samples_of(held)
            clients += len(few)
            if few:
                yield from from_bytes_together([sent.data for _, sent in few])

    path = append(folder, arriving(), coding=coding)
    say(f"{path or folder}: {clients:,} clients added")
    return summarized


def _say_sizes(name: str, held: Held, sent: Sent) -> None:
    say(
        f"{name}: {_samples_of(held) - sent.withheld.samples:,} samples, "
        f"{sent.formula_bytes:,} bytes by formula, {sent.wire_bytes:,} on the wire"
    )


def _samples_of(held: Held) -> int:
    return int(np.size(held.labels))


def _leaving(allowed: Policy, sender: Sender, clients: Iterable[Held], *, backbone: str) -> Leaving:
    """Say what leaves clients, and yield it; what they lose by it is not noted yet."""
    steps = allowed.guarded(sender).steps_in_words
    for few in sender.a_few_at_a_time(clients):
        made = zip(few, allowed.send_each(sender, few, backbone=backbone), strict=True)
        left: list[tuple[Held, Sent]] = []
        for held, sent in made:
            if sent is None:
                say(f"{held.client_id}: nothing is left to send, so there is no file")
                continue
            say(f"{held.client_id}: {sent}; steps: {steps}")
            left.append((held, sent))
        yield left


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
