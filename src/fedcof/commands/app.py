"""``fedcof app``: the Flower app, whose files come with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from fedcof.commands.shared import errors_for_people, say

app = typer.Typer(no_args_is_help=True, help="The Flower app that `flwr run` runs.")


@app.callback()
def _group() -> None:
    """Keep `new` a command of its own: Typer makes an app of one command that command."""


@app.command()
def new(
    folder: Annotated[Path, typer.Argument(help="Where to write it; a new or an empty folder.")],
) -> None:
    """Write the Flower app: its settings, and a script that deploys it on this machine."""
    with errors_for_people():
        if folder.exists() and any(folder.iterdir()):
            raise FileExistsError(f"{folder} is not empty: name a new folder for the app")
        folder.mkdir(parents=True, exist_ok=True)
        for source in files("fedcof.federation").joinpath("app").iterdir():
            if source.is_file():
                (folder / source.name).write_bytes(source.read_bytes())
        say(
            f"{folder}: the Flower app. Its settings are explained in {folder / 'pyproject.toml'}\n"
            f"run it:         flwr run {folder} CONNECTION --stream\n"
            f"see it at work: python {folder / 'deploy_loopback.py'} NEW-FOLDER"
        )
