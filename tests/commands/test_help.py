"""The help tells what arguments and options are; a shell completes names."""

import pytest
import typer
from typer.testing import CliRunner

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
