"""Options come from the settings; a method that is registered has its own."""

import re
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import pytest
import typer
from typer.testing import CliRunner

from fedcof.cli import app
from fedcof.commands.options import Given, hyperparameters, with_settings
from fedcof.methods import METHODS, FedCOF, FedNCM
from fedcof.settings import Auto, check_settings, setting, settings_of

COMMANDS = ("demo", "federate", "train", "summarize", "solve", "reproduce", "report")


@dataclass(frozen=True)
class Toy:
    """Settings of every type."""

    share: float = setting(1.0, "Share of the clients.", above=0, maximum=1)
    most_rounds: int = setting(3, "Rounds.", minimum=1)
    target: float | None = setting(None, "Stop here.", minimum=0)
    how: Literal["fast", "slow"] = setting("fast", "How it goes.")
    loud: bool = setting(False, "Whether it tells.")
    gamma: float | Auto = setting("auto", "On the diagonal.", minimum=0)
    seed: int = setting(0, "Seeds it.")

    def __post_init__(self) -> None:
        check_settings(self)


@pytest.fixture
def toy():
    """A command with the settings of `Toy`, and what it was given."""
    toy = typer.Typer()
    given = []

    @toy.command()
    @with_settings(toy=partial(settings_of, Toy))
    def run(seed: int = 7, *, toy: Given) -> None:
        """Run it."""
        given.append((seed, toy))

    def invoke(*arguments):
        return CliRunner().invoke(toy, arguments, env={"COLUMNS": "100"})

    return invoke, given


def test_what_is_not_given_is_absent(toy):
    invoke, given = toy
    assert invoke().exit_code == 0
    assert given == [(7, {})]


def test_values_have_the_types_of_the_settings(toy):
    invoke, given = toy
    options = ["--share", "1", "--most-rounds", "2", "--target", "0", "--how", "slow", "--no-loud"]
    result = invoke(*options, "--seed", "3")
    assert result.exit_code == 0, result.output
    values = {"share": 1.0, "most_rounds": 2, "target": 0.0, "how": "slow", "loud": False}
    assert given == [(3, values)]


def test_help_tells_description_range_choices_and_default(toy):
    invoke, _ = toy
    told = " ".join(invoke("--help").output.replace("│", " ").split())
    assert "Run it." in told
    assert "Share of the clients. Above 0 and at most 1. [default: 1.0]" in told
    assert re.search(r"fast\W+slow", told)
    assert "--loud --no-loud" in told
    assert "Stop here. At least 0. --" in told
    assert "Seeds it" not in told


@pytest.mark.parametrize(("text", "value"), [("auto", "auto"), ("0.5", 0.5), ("2", 2.0)])
def test_a_number_may_be_a_word(toy, text, value):
    invoke, given = toy
    result = invoke("--gamma", text)
    assert result.exit_code == 0, result.output
    assert given == [(7, {"gamma": value})]


def test_another_word_for_a_number_is_refused_with_what_may_be_given(toy):
    invoke, given = toy
    result = invoke("--gamma", "best")
    assert result.exit_code == 2
    told = " ".join(result.output.replace("│", " ").split())
    assert "'best' is not a finite number, at least 0 or 'auto'" in told
    assert given == []


@pytest.mark.parametrize("options", [["--how", "well"], ["--share", "all"]])
def test_another_type_or_choice_is_refused(toy, options):
    invoke, given = toy
    assert invoke(*options).exit_code == 2
    assert given == []


def test_of_two_groups_with_one_name_the_later_has_its_own_before_it():
    toy, given = typer.Typer(), []

    @toy.command()
    @with_settings(method=partial(settings_of, Toy), plan=partial(settings_of, Toy))
    def run(*, method: Given, plan: Given) -> None:
        """Run it."""
        given.append((method, plan))

    assert CliRunner().invoke(toy, ["--share", "0.5", "--plan-share", "0.25"]).exit_code == 0
    assert given == [({"share": 0.5}, {"share": 0.25})]


@pytest.fixture
def toy_method():
    @dataclass(frozen=True)
    class ToyMethod(FedNCM):
        name: ClassVar[str] = "toy-method"

        toy_rank: int = setting(3, "Rank of the sketch.", minimum=1, client=True)
        shrinkage: float = setting(9.0, "Added to it.", minimum=0)

        def __post_init__(self) -> None:
            check_settings(self)

    yield ToyMethod
    del METHODS["toy-method"]


@pytest.mark.parametrize("command", ["summarize", "solve", "federate", "train"])
def test_the_options_of_a_method_that_is_registered_later_are_there(command, toy_method):
    told = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "100"}).output
    assert "--toy-rank" in told
    assert ("--shrinkage" in told) == (command != "summarize")


@pytest.mark.usefixtures("toy_method")
def test_a_hyperparameter_of_several_methods_tells_every_default():
    default = hyperparameters()["shrinkage"].default
    assert default.startswith("1.0 for fedcof, fedcof-")
    assert default.endswith("; 9.0 for toy-method")


def test_a_name_for_two_types_is_refused(toy_method):
    @dataclass(frozen=True)
    class Other(FedNCM):
        name: ClassVar[str] = "other"

        toy_rank: str = setting("full", "Rank of the sketch.")

    try:
        with pytest.raises(TypeError, match=r"toy_rank is of several types: .*'other': 'str'"):
            hyperparameters()
    finally:
        del METHODS["other"]


def test_what_clients_need_not_know_is_no_option_of_theirs():
    assert "means_per_class" in hyperparameters(client=True)
    assert hyperparameters(client=True).keys() < hyperparameters().keys()
    assert hyperparameters().keys() > settings_of(FedCOF).keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_out_is_a_folder_everywhere(command, tmp_path):
    told = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "100"}).output
    [line] = [line for line in told.splitlines() if "--out" in line]
    assert line.split()[1:4] == ["--out", "-o", "FOLDER"]
    (tmp_path / "file").touch()
    arguments = {"summarize": ["x.npz"], "solve": ["x.summary"], "report": ["runs"]}
    options = [command, *arguments.get(command, []), "--out", str(tmp_path / "file")]
    assert CliRunner().invoke(app, options).exit_code == 2


def test_the_command_line_is_built_without_slow_packages():
    code = """
import sys
from fedcof.cli import app
app(["train", "--help"], standalone_mode=False)
slow = {"torch", "flwr", "sklearn", "ray", "pyarrow", "onnxruntime", "matplotlib", "scipy.optimize"}
print(slow & sys.modules.keys())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
