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
    from fedcof.backbones import BACKBONES, find_here, weights_folder

    table = Table("name", box=None)
    table.add_column("dim", justify="right")
    table.add_column("weights", overflow="fold")
    for backbone in BACKBONES.values():
        here = find_here(backbone)
        elsewhere = {
            "": backbone.package.install if backbone.package else None,
            "transformers: ": backbone.transformers,
            "torchvision: ": backbone.torchvision,
            "timm: ": backbone.timm,
        }
        sources = "".join(f"\n  {where}{what}" for where, what in elsewhere.items() if what)
        table.add_row(
            backbone.name,
            str(backbone.dim),
            f"here: {here.name}" if here else f"not here, but from{sources}",
        )
    console.print(table, highlight=False)
    console.print(
        f"your own: NAME.onnx, NAME.pth or the folder NAME of transformers in {weights_folder()}",
        highlight=False,
    )
