"""``fedcof backbones``: which backbones there are, and whether their weights are here."""

from __future__ import annotations

import typer
from rich.table import Table

from fedcof.commands.shared import console

app = typer.Typer(
    no_args_is_help=True, help="Which backbones there are, and whether their weights are here."
)


@app.command("list")
def list_() -> None:
    """List the backbones, and where the weights of each are found; nothing is fetched."""
    from fedcof.backbones import BACKBONES, sources, weights_folder

    table = Table("name", box=None)
    table.add_column("dim", justify="right")
    table.add_column("weights", overflow="fold")
    for backbone in BACKBONES.values():
        places = sources(backbone.name)
        here = next((path for place in places if (path := place.here())), None)
        elsewhere = "".join(f"\n- {p.wanted}" for p in places if p.path is None)
        table.add_row(
            backbone.name,
            str(backbone.dim),
            f"here: {here.name}" if here else f"not here; the first that can be had:{elsewhere}",
        )
    console.print(table, highlight=False)
    console.print(
        f"your own: NAME.onnx, NAME.pth or the folder NAME of transformers in {weights_folder()}; "
        "the first of these goes before all others, and an ONNX file cannot be trained",
        highlight=False,
    )
