"""``fedcof backbones``: which backbones there are, and whether their weights are here."""

from __future__ import annotations

import typer

from fedcof.commands.shared import Json, print_table, say

app = typer.Typer(
    no_args_is_help=True, help="Which backbones there are, and whether their weights are here."
)


@app.command("list")
def list_(*, as_json: Json = False) -> None:
    """List the backbones, and where the weights of each are found; nothing is fetched."""
    from fedcof.backbones import BACKBONES, sources, weights_folder

    rows = []
    for backbone in BACKBONES.values():
        places = sources(backbone.name)
        here = next((path for place in places if (path := place.here())), None)
        elsewhere = [place.wanted for place in places if place.path is None]
        wanted = "".join(f"\n- {place}" for place in elsewhere)
        rows.append(
            {
                "name": backbone.name,
                "dim": backbone.dim,
                "weights": f"here: {here.name}"
                if here
                else f"not here; the first that can be had:{wanted}",
            }
        )
    print_table(rows, as_json=as_json)
    say(
        f"your own: NAME.onnx, NAME.pth or the folder NAME of transformers in {weights_folder()}; "
        "the first of these goes before all others, and an ONNX file cannot be trained",
        as_json=as_json,
    )
