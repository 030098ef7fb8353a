"""The help tells what arguments and options are; a shell completes names."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import fedcof.commands
from fedcof.cli import app
from fedcof.commands.options import COMPLETIONS


def commands():
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from (([name, sub], found) for sub, found in command.commands.items())
        else:
            yield [name], command


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda value: str(value)[:30])
def test_the_help_of_a_command_holds_that_of_its_arguments(name, command):
    told = CliRunner().invoke(app, [*name, "--help"], env={"COLUMNS": "400"}).output
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            assert parameter.help
            assert parameter.help.split(".")[0] in told


def test_the_help_leads_a_newcomer_through_the_commands_in_the_order_of_their_use():
    told = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    order = ["Your data", *("summarize", "solve", "inspect", "predict", "evaluate", "export")]
    order += ["compare", "withdraw", "Try, federate, train", "demo", "federate", "train", "app"]
    order += ["The paper", "reproduce", "report", "datasets", "backbones"]
    lines = [line.strip("│╭─╮ ") for line in told.splitlines()]
    found = [next(i for i, line in enumerate(lines) if line.startswith(name)) for name in order]
    assert found == sorted(found)


FILES = sorted(Path(*fedcof.commands.__path__).glob("*.py"))
PRINTS_A_TABLE = ("print_table(", "print_result(")


def test_every_command_that_prints_a_table_prints_json_instead():
    without = set()
    for name, command in commands():
        text = next(f for f in FILES if f.stem == name[0]).read_text(encoding="utf-8")
        if any(call in text for call in PRINTS_A_TABLE):
            options = {option for parameter in command.params for option in parameter.opts}
            without |= set() if "--json" in options else {" ".join(name)}
    assert without == {"datasets check", "run"}  # lines; those of `run --log-json` are JSON


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_commands_print_by_the_functions_that_read_no_markup(file):
    text = file.read_text(encoding="utf-8")
    if file.stem != "shared":
        for other in ("typer.echo", "console", "[bold", "[red"):
            assert other not in text.replace("rich.console import RenderableType", "")


@pytest.mark.parametrize(
    ("kind", "typed", "names"),
    [
        ("methods", "fedc", ["fedcof", "fedcof-oracle"]),
        ("datasets", "cifar", ["cifar10", "cifar100"]),
        ("backbones", "squeeze", ["squeezenet1.1"]),
        ("partitions", "d", ["dirichlet"]),
    ],
)
def test_a_name_that_is_begun_is_completed(kind, typed, names):
    assert set(names) <= set(COMPLETIONS[kind](typed))
    assert all(name.startswith(typed) for name in COMPLETIONS[kind](typed))


def test_experiments_are_completed():
    assert COMPLETIONS["experiments"]("")
