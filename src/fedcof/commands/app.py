"""``fedcof app``: the Flower app, whose files come with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from fedcof.commands.shared import errors_for_people, note, say

app = typer.Typer(
    no_args_is_help=True, help="The Flower app that `fedcof run` runs, and a site's machine."
)


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
            f"run it:         fedcof run {folder} CONNECTION\n"
            f"see it at work: python {folder / 'deploy_loopback.py'} NEW-FOLDER"
        )


@app.command()
def check(
    superlink: Annotated[str, typer.Argument(help="Address of the SuperLink, HOST:PORT.")],
    *,
    root_certificates: Annotated[
        Path | None,
        typer.Option(exists=True, help="The SuperLink's certificate, or that of its CA."),
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="The SuperLink has no TLS.")] = False,
    data: Annotated[
        str, typer.Option(help="Path of this site's data, as in --node-config; it is read.")
    ] = "",
) -> None:
    """Try at a site, before its SuperNode starts: versions, TLS, the clock, the data."""
    with errors_for_people():
        from fedcof.federation.preflight import superlink_faults, versions

        if (root_certificates is None) != insecure:
            raise ValueError("give --root-certificates, or --insecure where there is no TLS")
        say(versions())
        faults = superlink_faults(superlink, root_certificates)
        if data:
            from fedcof.data.reading import read

            clients = read(data).by_client("this site")
            say(f"{data}: {len(clients)} clients")
        for fault in faults:
            note(fault)
        if faults:
            raise typer.Exit(1)
        say(f"{superlink}: reached, and this machine's clock agrees with its")
