"""``fedcof backbones``: which backbones there are, and whether their weights are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from fedcof.commands.shared import Json, print_table, say

if TYPE_CHECKING:
    from fedcof.backbones.sources import Source

app = typer.Typer(
    no_args_is_help=True, help="Which backbones there are, and whether their weights are here."
)


@app.command("list")
def list_(*, as_json: Json = False) -> None:
    """List the backbones, the paper's weights and where all are found; nothing is fetched."""
    from fedcof.backbones import BACKBONES, sources, weights_folder

    rows, document = [], []
    for backbone in BACKBONES.values():
        places = sources(backbone.name)
        about = {"name": backbone.name, "dim": backbone.dim, "paper": backbone.paper or None}
        rows.append({**about, "--weights, in order": "\n".join(map(_line, places))})
        document.append({**about, "weights": [_entry(place) for place in places]})
    print_table(rows, document=document, as_json=as_json)
    say(
        f"Your own lie in {weights_folder()}, or --weights names the file. An ONNX file cannot be "
        "trained. torchvision's are IMAGENET1K_V1.",
        as_json=as_json,
    )


def _line(place: Source) -> str:
    """Return where weights may be, whether they are here, and what they need."""
    here = place.here()
    return f"{place.name}: {f'here: {here.name}' if here else f'needs {place.wanted}'}"


def _entry(place: Source) -> dict[str, Any]:
    return {"source": place.name, "here": place.here() is not None, "needs": place.wanted}
