"""The command line: the commands of `fedcof.commands`, as the help groups them."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

import fedcof
from fedcof.commands import app as flower_app
from fedcof.commands import backbones, datasets
from fedcof.commands.collect import collect
from fedcof.commands.compare import compare
from fedcof.commands.demo import demo
from fedcof.commands.evaluate import evaluate
from fedcof.commands.export import export
from fedcof.commands.federate import federate
from fedcof.commands.inspect import inspect
from fedcof.commands.predict import predict
from fedcof.commands.report import report
from fedcof.commands.reproduce import reproduce
from fedcof.commands.run import run
from fedcof.commands.shared import warnings_for_people
from fedcof.commands.solve import solve
from fedcof.commands.status import status
from fedcof.commands.summarize import summarize
from fedcof.commands.train import train
from fedcof.commands.watch import watch
from fedcof.commands.withdraw import withdraw

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Training-free federated learning: one round of class means, a working classifier.",
)


def _version(show: bool) -> None:
    if show:
        typer.echo(fedcof.__version__)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


YOUR_DATA, TRY_AND_TRAIN, THE_PAPER = "Your data", "Try, federate, train", "The paper"

for panel, commands in {
    YOUR_DATA: (summarize, collect, solve, inspect, predict, evaluate, export, compare, withdraw),
    TRY_AND_TRAIN: (demo, federate, train, run, status, watch),
    THE_PAPER: (reproduce, report),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(flower_app.app, name="app", rich_help_panel=TRY_AND_TRAIN)
app.add_typer(datasets.app, name="datasets", rich_help_panel=THE_PAPER)
app.add_typer(backbones.app, name="backbones", rich_help_panel=THE_PAPER)


def main() -> None:
    """Run the command line."""
    # What cannot be printed in the terminal's encoding is escaped: it must not stop a command.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with warnings_for_people():
        app()
