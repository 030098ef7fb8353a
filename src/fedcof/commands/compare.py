"""``fedcof compare``: every method on own data, and which to take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from fedcof.commands.evaluate import FigureFormat, save_figure, write_csv
from fedcof.commands.options import (
    Given,
    TransformText,
    dealing_settings,
    hyperparameters,
    out_folder,
    reading_settings,
    sending_settings,
    with_settings,
)
from fedcof.commands.shared import (
    EXIT_LEFT_OUT,
    Json,
    errors_for_people,
    print_result,
    say,
    table_of,
)

if TYPE_CHECKING:
    from fedcof.data import Dealing, FeatureTable, LeftOut, OwnData
    from fedcof.report.tables import Table

_CLIENT = "client"
_SAMPLES_A_CLIENT = 50
"""Of data without clients: so many are dealt to a client, unless the number is given."""


@with_settings(
    reading=reading_settings,
    dealing=dealing_settings,
    hyperparameters=hyperparameters,
    sending=sending_settings,
)
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(help="Folders of images or tables, with labels; of several, each a client."),
    ],
    *,
    seeds: Annotated[int, typer.Option(min=1, help="How often all is split and dealt anew.")] = 5,
    partition: Annotated[
        str,
        typer.Option(
            help="How to deal: dirichlet, class-wise, iid, or a column. Default: by the data's "
            "clients, or dirichlet where it names none."
        ),
    ] = "",
    backbone: Annotated[str, typer.Option(help="Name of the backbone for images.")] = (
        "squeezenet1.1"
    ),
    transform: TransformText = "none",
    out: Annotated[Path | None, out_folder("the table as CSV and the figure")] = None,
    figures: FigureFormat = "png",
    as_json: Json = False,
    reading: Given,
    dealing: Given,
    hyperparameters: Given,
    sending: Given,
) -> None:
    """Run every method on own data with several seeds, and say which to take and why.

    A fifth of every class is held out to test on. Hyperparameters that are given hold for all
    methods that have them.
    """
    from fedcof.backbones import transform_for
    from fedcof.experiments.comparison import compared_methods, comparison, run_comparison
    from fedcof.progress import progress_bar
    from fedcof.report.advice import advice
    from fedcof.report.drawings import draw
    from fedcof.report.tables import tabulate

    with errors_for_people():
        data = _read(sources, reading)
        table, left_out = _features(data, backbone)
        scheme = _dealing(table, partition, dealing)
        methods = compared_methods(hyperparameters)
        name = ", ".join(sources) if len(sources) < 4 else f"{len(sources)} sources"
        network = "" if data.are_features else backbone
        experiment = comparison(
            name,
            network,
            scheme,
            methods,
            seeds,
            transform=str(transform_for(transform, network)),
            **sending,
        )
        with progress_bar("Comparing", len(methods) * seeds, unit="runs") as advance:
            rows, skipped, facts = run_comparison(experiment, table, advance)
        if not rows:
            raise ValueError(f"no method can be run on this data: {skipped[0].reason}")
        results = tabulate(experiment, rows)
        words = advice(facts, results)
        notes = [*left_out.lines(), *(f"not run: {entry.reason}" for entry in skipped)]
        title = (
            f"{experiment.title}: {facts.clients:,} clients, {facts.classes:,} classes, "
            f"{facts.samples:,} training samples of length {facts.dim:,}, "
            + (f"{seeds} seeds" if seeds > 1 else "1 seed")
        )
        document = {"lines": _lines(results), "facts": asdict(facts), "advice": words}
        shown = table_of([_shown(line) for line in _lines(results)], title)
        print_result({**document, "notes": notes}, shown, *words, *notes, as_json=as_json)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            [drawing] = draw(experiment, results)
            for path in (
                write_csv(out / "comparison.csv", _lines(results)),
                save_figure(drawing.figure, out / f"comparison.{figures}"),
            ):
                say(f"saved: {path}", as_json=as_json)
        if left_out.count or skipped:
            raise typer.Exit(EXIT_LEFT_OUT)


def _read(sources: Sequence[str], reading: Mapping[str, Any]) -> OwnData:
    """Read all sources as one; of several, one that names no clients is a client by its name."""
    from fedcof.data import Reading, read
    from fedcof.data.reading.own_data import joined

    parts = [read(source, Reading(**reading)) for source in sources]
    if len(parts) > 1:
        names = [Path(source).stem for source in sources]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two sources are called {name!r}, and each is a client's")
        parts = [
            part if part.clients is not None else replace(part, clients=np.full(len(part), name))
            for part, name in zip(parts, names, strict=True)
        ]
    return joined(parts)


def _features(data: OwnData, backbone: str) -> tuple[FeatureTable, LeftOut]:
    """Return the features of own data, and what was left out."""
    from fedcof import backbones
    from fedcof.data import FeatureTable, LeftOut, extract_features
    from fedcof.progress import progress_bar

    left_out = data.left_out
    features = data.data
    if not data.are_features:
        with progress_bar("Extracting features", len(data), unit="images") as advance:
            found = extract_features(data.data, backbones.get(backbone), advance=advance)
        features, data = found.features, data.subset(found.kept)
        if found.skipped:
            left_out += LeftOut({"an image that cannot be read": found.skipped})
    assert data.labels is not None
    classes, labels = np.unique(data.labels, return_inverse=True)
    columns = dict(data.columns)
    if data.clients is not None:
        columns[_CLIENT] = data.clients
    return FeatureTable(features, labels, tuple(map(str, classes)), columns), left_out


def _dealing(table: FeatureTable, partition: str, given: Mapping[str, Any]) -> Dealing:
    """Return how the samples are dealt: as asked, by their clients, or by Dirichlet mixes."""
    from fedcof.data import dealings, get_dealing

    if not partition and _CLIENT in table.columns and not given:
        partition = _CLIENT
    if not partition or partition in dealings():  # a scheme, which takes a number of clients
        given = {"clients": min(100, max(2, len(table) // _SAMPLES_A_CLIENT)), **given}
    return get_dealing(partition or "dirichlet", table.columns, **given)


def _lines(table: Table) -> list[dict[str, Any]]:
    """Return a line a method: per cent over the seeds, and bytes that all clients send."""
    found = []
    for line in table.lines:
        numbers: dict[str, Any] = {"method": line.shown["method"]}
        for metric in ("accuracy", "balanced_accuracy"):
            value = line.values[metric]
            numbers |= {metric: value.mean, f"{metric}_deviation": value.deviation}
        for metric in ("formula_bytes", "wire_bytes"):
            numbers[metric] = round(np.mean([row.measured[metric] for row in line.rows]))
        found.append(numbers | {"seeds": len(line.rows)})
    return found


def _shown(line: Mapping[str, Any]) -> dict[str, str]:
    from fedcof.report.advice import as_bytes

    def percent(metric: str) -> Iterator[str]:
        yield f"{line[metric]:.1f}"
        if line[f"{metric}_deviation"] is not None:
            yield f"± {line[f'{metric}_deviation']:.1f}"

    return {
        "method": line["method"],
        "accuracy %": " ".join(percent("accuracy")),
        "balanced %": " ".join(percent("balanced_accuracy")),
        "sent (formula)": as_bytes(line["formula_bytes"]),
        "on the wire": as_bytes(line["wire_bytes"]),
    }
