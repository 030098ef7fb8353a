"""``fedcof backbones``: which there are, and which transform helps the features of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcof.commands.options import (
    COMPLETIONS,
    Given,
    Seed,
    Weights,
    reading_settings,
    with_settings,
)
from fedcof.commands.shared import (
    EXIT_LEFT_OUT,
    Json,
    errors_for_people,
    note,
    print_result,
    print_table,
    say,
    table_of,
)

if TYPE_CHECKING:
    from fedcof.backbones.sources import Source

app = typer.Typer(
    no_args_is_help=True,
    help="Which backbones there are, whether their weights are here, what helps their features.",
)


@app.command("list")
def list_(*, as_json: Json = False) -> None:
    """List the backbones, the paper's weights and where all are found; nothing is fetched."""
    from fedcof.backbones import BACKBONES, sources, weights_folder

    rows, document = [], []
    for backbone in BACKBONES.values():
        places = sources(backbone.name)
        about = {
            "name": backbone.name,
            "dim": backbone.dim,
            "transform": str(backbone.transform),
            "paper": backbone.paper or None,
        }
        rows.append({**about, "--weights, in order": "\n".join(map(_line, places))})
        document.append({**about, "weights": [_entry(place) for place in places]})
    print_table(rows, document=document, as_json=as_json)
    say(
        f"Your own lie in {weights_folder()}, or --weights names the file. An ONNX file cannot be "
        "trained. torchvision's are IMAGENET1K_V1.",
        as_json=as_json,
    )


@app.command("advise")
@with_settings(reading=reading_settings)
def advise(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IMAGES",
            help="Public images with labels: a folder with a sub-folder a class, or a table; or a "
            "table of their features.",
        ),
    ],
    *,
    backbone: Annotated[
        str,
        typer.Option(
            help="Name of the backbone, or an ONNX file.", autocompletion=COMPLETIONS["backbones"]
        ),
    ] = "squeezenet1.1",
    weights: Weights = "",
    seed: Seed = 0,
    as_json: Json = False,
    reading: Given,
) -> None:
    """Measure on public images which transform helps a backbone's features; see --transform."""
    from fedcof.backbones import with_weights
    from fedcof.backbones.advice import CANDIDATES, FOLDS
    from fedcof.backbones.advice import advise as advice_of
    from fedcof.data import Reading, read
    from fedcof.federation.sources import extract
    from fedcof.progress import progress_bar

    with errors_for_people():
        named = with_weights(backbone, weights)
        own = read(source, Reading(**reading))
        for line in own.left_out.lines():
            note(line)
        with progress_bar("Extracting features", len(own), unit="samples") as advance:
            found = extract(own.data, own.labels, named, advance=advance)
        work = (1 + len(CANDIDATES)) * FOLDS
        with progress_bar("Comparing transforms", work, unit="folds") as advance:
            advice = advice_of(found.features, found.labels, seed=seed, advance=advance)
        chosen = advice.recommended
        rows = [
            {
                "transform": str(measured.transform),
                "accuracy %": f"{100 * measured.accuracy:.1f}",
                "lead": f"{100 * measured.lead:+.1f} ± {100 * measured.deviation:.1f}",
            }
            for measured in advice.measured
        ]
        document = {
            "backbone": None if own.are_features else named,
            "samples": advice.samples,
            "classes": advice.classes,
            "recommended": str(chosen.transform),
            "measured": [{**vars(m), "transform": str(m.transform)} for m in advice.measured],
        }
        title = f"{advice.samples:,} samples of {advice.classes:,} classes, each held out once"
        words = (
            f"--transform {chosen.transform}: not below the best by more than chance, "
            f"{100 * chosen.lead:+.1f} ± {100 * chosen.deviation:.1f} points beside none"
        )
        print_result(document, table_of(rows, title), words, as_json=as_json)
        if own.left_out.count or len(found.labels) < len(own):
            raise typer.Exit(EXIT_LEFT_OUT)


def _line(place: Source) -> str:
    """Return where weights may be, whether they are here, and what they need."""
    here = place.here()
    return f"{place.name}: {f'here: {here.name}' if here else f'needs {place.wanted}'}"


def _entry(place: Source) -> dict[str, Any]:
    return {"source": place.name, "here": place.here() is not None, "needs": place.wanted}
