"""``fedcof reproduce``: a table or figure of the paper, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich import box
from rich.table import Table as RichTable

from fedcof.commands.options import (
    COMPLETIONS,
    Data,
    Given,
    out_folder,
    reading_settings,
    with_settings,
)
from fedcof.commands.shared import check_device, console, error_console, errors_for_people

if TYPE_CHECKING:
    from fedcof.report.sheets import Sheet

_ANY_WIDTH = console.options.update(width=1000)


@with_settings(reading=reading_settings)
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="The paper's label; see --list.", autocompletion=COMPLETIONS["experiments"]
        ),
    ] = "",
    *,
    dataset: Annotated[
        str,
        typer.Option(
            help="One data set, the paper's or another. Default: all the paper's.",
            autocompletion=COMPLETIONS["datasets"],
        ),
    ] = "",
    backbone: Annotated[
        str,
        typer.Option(
            help="One backbone, the paper's or another. Default: all the paper's.",
            autocompletion=COMPLETIONS["backbones"],
        ),
    ] = "",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of seeds. Default: the paper's.")
    ] = None,
    data: Data = None,
    device: Annotated[
        str, typer.Option(help="Where torch computes, in experiments that train: cpu, cuda.")
    ] = "cpu",
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop training after so many rounds: a short run, to try an experiment before a "
            "long one; all else is as declared.",
        ),
    ] = None,
    out: Annotated[Path, out_folder("results; a run into the same one goes on")] = Path("runs"),
    list_: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    reading: Given,
) -> None:
    """Run an experiment of the paper and print our numbers beside the paper's."""
    from fedcof.data import Reading
    from fedcof.experiments import (
        EXPERIMENTS,
        Results,
        get_experiment,
        is_features,
        load_features,
        run,
    )
    from fedcof.report.sheets import sheets
    from fedcof.report.tables import by_place

    with errors_for_people():
        if list_ or not name:
            listing = RichTable("name", "what it shows", "data sets", box=None)
            for experiment in EXPERIMENTS.values():
                datasets = dict.fromkeys(setting.dataset for setting in experiment.settings())
                listing.add_row(experiment.name, experiment.title, ", ".join(datasets))
            console.print(listing)
            return
        _check_names(dataset, backbone)
        names = Reading(**reading)
        once = is_features(dataset, names)
        experiment = get_experiment(name).on(dataset or None, "" if once else backbone or None)
        if rounds is not None:
            experiment = experiment.shortened(rounds)
        if device != "cpu":
            check_device(device)
        results = Results(out)
        load = partial(load_features, data=data, reading=names)
        run(experiment, results, load, seeds=seeds, device=device)
        wanted = {(s.dataset, s.backbone) for s in experiment.settings()}
        rows = [
            row
            for row in results.rows(experiment.name, experiment.short_rounds)
            if (row.setting["dataset"], row.setting["backbone"]) in wanted
            and (seeds is None or row.seed < seeds)
        ]
        for table in by_place(experiment, rows):
            for sheet in sheets(experiment, table):
                shown = _as_rich(sheet, experiment.title)
                if console.measure(shown, options=_ANY_WIDTH).maximum > console.width:
                    shown = _as_rich(sheet, experiment.title, without={"difference", "ratio"})
                console.print(shown)
        for note in experiment.notes if rows else ():
            console.print(f"note: {note}", highlight=False)
        for skipped in results.skipped(experiment.name, experiment.short_rounds):
            where = ", ".join(filter(None, (skipped.dataset, skipped.backbone)))
            error_console.print(f"skipped {where}: {skipped.reason}", highlight=False)
        if not rows:
            raise typer.Exit(1)
        console.print(f"results: {results.path}")


def _check_names(dataset: str, backbone: str) -> None:
    """Refuse an unknown name with the near ones; the run would only skip it."""
    from fedcof import backbones
    from fedcof.data import datasets

    if dataset and ":" not in dataset:
        datasets.describe(dataset)
    if backbone and backbone not in backbones.BACKBONES:
        backbones.get(backbone)


def _as_rich(sheet: Sheet, title: str, *, without: Collection[str] = ()) -> RichTable:
    kept = [position for position, name in enumerate(sheet.titles) if name not in without]
    justify: Literal["left", "right"]
    shown = RichTable(title=title, caption=sheet.caption, box=box.SIMPLE_HEAD)
    for position in kept:
        justify = "right" if position >= sheet.labels else "left"
        texts = [sheet.titles[position], *(cells[position] for cells in sheet.rows)]
        longest_word = max(len(word) for text in texts for word in text.split())
        shown.add_column(sheet.titles[position], justify=justify, min_width=longest_word)
    for cells in sheet.rows:
        shown.add_row(*(cells[position] for position in kept))
    return shown
