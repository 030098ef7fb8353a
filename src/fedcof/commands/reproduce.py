"""``fedcof reproduce``: a table or figure of the paper, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from fedcof.commands.options import (
    COMPLETIONS,
    Data,
    Given,
    Weights,
    out_folder,
    reading_settings,
    with_settings,
)
from fedcof.commands.shared import (
    Json,
    check_device,
    errors_for_people,
    fits,
    note,
    print_result,
    print_table,
    say,
)
from fedcof.errors import SettingError

if TYPE_CHECKING:
    from fedcof.experiments import Experiment, Results
    from fedcof.report.sheets import Sheet
    from fedcof.report.tables import Table


@with_settings(reading=reading_settings)
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="The paper's labels, see --list; all for every experiment that trains nothing.",
            autocompletion=COMPLETIONS["experiments"],
        ),
    ] = None,
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
    weights: Weights = "",
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
    as_json: Json = False,
    reading: Given,
) -> None:
    """Run experiments of the paper and print our numbers beside the paper's."""
    import joblib

    from fedcof.data import Reading
    from fedcof.experiments import Results, is_features, load_features, run

    with errors_for_people():
        if list_ or not names:
            _list(as_json)
            return
        _check_names(dataset, backbone)
        columns = Reading(**reading)
        if is_features(dataset, columns):
            if weights:
                raise SettingError("weights", f"are of a backbone; {dataset} has features")
            wanted = [one.on(dataset, "") for one in _named(names)]
        else:
            wanted = [one.on(dataset or None, backbone or None, weights) for one in _named(names)]
        if rounds is not None:
            wanted = [one.shortened(rounds) for one in wanted]
        if device != "cpu":
            check_device(device)
        results = Results(out)
        load = partial(load_features, data=data, reading=columns)
        run(wanted, results, load, seeds=seeds, device=device, workers=joblib.cpu_count())
        documents = [_show(experiment, results, seeds, as_json=as_json) for experiment in wanted]
        if as_json:
            print_result(documents[0] if len(documents) == 1 else documents, as_json=True)
        say(f"results: {results.path}", as_json=as_json)
        if not all(document["tables"] for document in documents):
            raise typer.Exit(1)


def _named(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of these names, those that train nothing for "all"."""
    from fedcof.experiments import EXPERIMENTS, get_experiment

    if list(names) != ["all"]:
        return [get_experiment(name) for name in dict.fromkeys(names)]
    return [
        experiment
        for experiment in EXPERIMENTS.values()
        if not any(setting.procedure.trains for setting in experiment.settings())
    ]


def _show(
    experiment: Experiment, results: Results, seeds: int | None, *, as_json: bool
) -> dict[str, Any]:
    """Print the tables of an experiment, unless as JSON, and return them as JSON has them."""
    from fedcof.report.tables import by_place

    wanted = {_place(setting.columns()) for setting in experiment.settings()}
    rows = [
        row
        for row in results.rows(experiment.name, experiment.short_rounds)
        if _place(row.setting) in wanted and (seeds is None or row.seed < seeds)
    ]
    tables = by_place(experiment, rows)
    skipped = results.skipped(experiment.name, experiment.short_rounds)
    document = {
        "experiment": experiment.name,
        "title": experiment.title,
        "tables": [_as_json(table) for table in tables],
        "notes": experiment.notes,
        "skipped": [entry._asdict() for entry in skipped],
        "results": results.path,
    }
    if not as_json:
        shown = (sheet for table in tables for sheet in _sheets(experiment, table))
        print_result(
            document, *shown, *(f"note: {text}" for text in experiment.notes if rows), as_json=False
        )
    for entry in skipped:
        where = ", ".join(filter(None, (entry.dataset, entry.backbone)))
        note(f"{experiment.name}: skipped {where}: {entry.reason}")
    return document


def _list(as_json: bool) -> None:
    """Print the experiments, and which data sets they take besides those declared."""
    from fedcof.data.datasets import DATASETS
    from fedcof.experiments import EXPERIMENTS

    rows = [
        {
            "name": experiment.name,
            "what it shows": experiment.title,
            "data sets": list(dict.fromkeys(s.dataset for s in experiment.settings())),
        }
        for experiment in EXPERIMENTS.values()
    ]
    shown = [row | {"data sets": ", ".join(row["data sets"])} for row in rows]
    print_table(shown, document=rows, as_json=as_json)
    say(
        f"--dataset takes others as well: {', '.join(DATASETS)}; and your own as folder:PATH, "
        "parquet:PATH or table:PATH. A column that an experiment deals by, such as user or domain, "
        "has to be among theirs; one that trains a network needs images.",
        as_json=as_json,
    )


def _place(columns: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(columns.get(name) for name in ("dataset", "backbone", "weights"))


def _check_names(dataset: str, backbone: str) -> None:
    """Refuse an unknown name with the near ones; the run would only skip it."""
    from fedcof import backbones
    from fedcof.data import datasets

    if dataset and ":" not in dataset:
        datasets.describe(dataset)
    if backbone:
        backbones.sources(backbone)


def _as_json(table: Table) -> list[dict[str, Any]]:
    """Return the numbers of a table, a line a setting, with the seeds that they are of."""
    return [
        {
            "setting": line.setting,
            "seeds": sorted(row.seed for row in line.rows),
            "measured": line.values,
        }
        for line in table.lines
    ]


def _sheets(experiment: Experiment, table: Table) -> Iterator[RichTable]:
    """Yield a table as the terminal shows it; a narrow one does without what can be computed."""
    from fedcof.report.sheets import sheets

    for sheet in sheets(experiment, table):
        shown = _as_rich(sheet, experiment.title)
        yield (
            shown
            if fits(shown)
            else _as_rich(sheet, experiment.title, without={"difference", "ratio"})
        )


def _as_rich(sheet: Sheet, title: str, *, without: Collection[str] = ()) -> RichTable:
    kept = [position for position, name in enumerate(sheet.titles) if name not in without]
    justify: Literal["left", "right"]
    shown = RichTable(title=Text(title), caption=Text(sheet.caption), box=box.SIMPLE_HEAD)
    for position in kept:
        justify = "right" if position >= sheet.labels else "left"
        texts = [sheet.titles[position], *(cells[position] for cells in sheet.rows)]
        longest_word = max(len(word) for text in texts for word in text.split())
        shown.add_column(Text(sheet.titles[position]), justify=justify, min_width=longest_word)
    for cells in sheet.rows:
        shown.add_row(*(Text(cells[position]) for position in kept))
    return shown
