"""What commands print is what it is: no markup, nothing lost, one JSON document on demand."""

import json
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import typer

from fedcof import __version__
from fedcof.commands.shared import (
    errors_for_people,
    note,
    print_result,
    print_table,
    say,
    table_of,
    warnings_for_people,
)
from fedcof.errors import SettingError, SummaryError


def fedcof(*arguments, **options):
    command = [sys.executable, "-m", "fedcof", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_a_line_is_printed_as_it_is(capsys):
    say("[/ward] [red]x[/]: " + "long " * 100)
    assert capsys.readouterr().out == "[/ward] [red]x[/]: " + "long " * 100 + "\n"


def test_beside_a_json_document_a_line_goes_to_standard_error(capsys):
    say("saved", as_json=True)
    assert capsys.readouterr() == ("", "saved\n")


def test_a_table_has_the_columns_of_its_rows_and_no_markup(capsys):
    print_table([{"[/client]": "[red]", "samples": 1200}, {"[/client]": "b", "samples": None}])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [word for word in lines[1] if word.isascii()] == ["[/client]", "samples"]
    assert [word for word in lines[3] if word.isascii()] == ["[red]", "1,200"]


def test_numbers_stand_right_and_texts_left():
    table = table_of(
        [
            {"client": "a", "samples": 1, "accuracy %": "81.50"},
            {"client": "b", "samples": None, "accuracy %": "1,000"},
        ]
    )
    assert [column.justify for column in table.columns] == ["left", "right", "right"]


def test_a_note_goes_to_standard_error_as_it_is(capsys):
    note("set aside [bold]x[/]: [/ward]")
    assert capsys.readouterr() == ("", "set aside [bold]x[/]: [/ward]\n")


def test_a_table_without_rows_is_printed_too(capsys):
    print_table([], as_json=True)
    print_table([], title="nothing")
    assert capsys.readouterr().out.startswith("[]\n")


def test_json_is_one_document_with_pythons_own_values(capsys):
    @dataclass
    class Point:
        place: Path
        value: np.float64

    document = {"points": [Point(Path("a"), np.float64("nan"))], "counts": np.arange(2)}
    print_result(document, "not shown", as_json=True)
    expected = {"points": [{"place": "a", "value": None}], "counts": [0, 1]}
    assert json.loads(capsys.readouterr().out) == expected


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SettingError("min_clients", "must be 1"), "error: --min-clients must be 1\n"),
        (SummaryError("shape", "bad [/x]", client_id="[/ward]"), "client '[/ward]': bad [/x]\n"),
        (OSError("x" * 300), f"error: {'x' * 300}\n"),
    ],
)
def test_an_error_is_one_line_without_markup(error, text, capsys):
    with pytest.raises(typer.Exit) as ended, errors_for_people():
        raise error
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err.endswith(text)


def test_a_warning_is_text_without_its_place_in_the_source(capsys):
    with warnings.catch_warnings(), warnings_for_people():
        warnings.simplefilter("always")
        warnings.warn("the scale of [/ward] is odd", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: the scale of [/ward] is odd\n"


def test_python_m_fedcof_is_the_command():
    assert fedcof("-V").stdout == f"{__version__}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="/dev/full is of Linux")
def test_a_message_that_cannot_be_printed_loses_no_exit_status():
    with open("/dev/full", "w") as full:
        code = "from fedcof.commands.shared import say; say('x'); say('y'); exit(3)"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")
