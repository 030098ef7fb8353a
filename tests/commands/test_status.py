import json

import pytest
from typer.testing import CliRunner

from fedcof.cli import app
from fedcof.federation.status import STATUS, Status


@pytest.fixture
def status(tmp_path):
    """Write a status; return what a command says of it."""

    def status(command="status", *options, **fields):
        Status(**fields).save(tmp_path / STATUS)
        return CliRunner().invoke(app, [command, str(tmp_path), *options])

    return status


def test_status_shows_what_became_of_the_clients(status):
    done = status(
        state="collecting",
        message="",
        updated=1e12,
        known=10,
        answered=5,
        waiting=3,
        refused={"shape": 2},
        classes={str(i): i for i in range(20)},
        faults={"4": "no answer within 15 s"},
        timeline=((0.0, 0), (10.0, 5)),
    )
    assert done.exit_code == 0
    for text in ("collecting", "shape", "no answer within 15 s", "and 12 more", "0:00:06"):
        assert text in done.output


def test_status_as_json_has_what_follows_from_it(status):
    document = json.loads(status("status", "--json", known=3, refused={"shape": 2}).stdout)
    assert (document["known"], document["set_aside"], document["settled"]) == (3, 2, 2)


@pytest.mark.parametrize("command", ["status", "watch"])
def test_a_run_that_failed_ends_the_command_with_1(status, command):
    done = status(command, state="failed", message="no head")
    assert done.exit_code == 1
    assert "failed: no head" in done.output


def test_watch_ends_with_the_run(status):
    done = status("watch", state="complete", message="done", known=2, answered=2)
    assert done.exit_code == 0
    assert "complete" in done.output


def test_a_server_that_died_is_told(status):
    done = status(state="collecting", updated=0.0)
    assert "the server app has died" in done.output.replace("\n", " ")


@pytest.mark.parametrize("command", ["status", "watch"])
def test_a_folder_of_no_run_is_one_line(command, tmp_path):
    done = CliRunner().invoke(app, [command, str(tmp_path)])
    assert done.exit_code == 1
    assert "it is no run folder" in done.output.replace("\n", " ")
