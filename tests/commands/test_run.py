"""`fedcof run` over a double of Flower's command."""

import json
import sys

import pytest
from typer.testing import CliRunner

from fedcof.cli import app
from fedcof.errors import LaunchError
from fedcof.federation import launching
from fedcof.federation.watching import as_json

FLWR = """
import json, pathlib, sys
folder = pathlib.Path(__file__).parent
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
action = sys.argv[1]
answer = json.loads((folder / "answers.json").read_text())[action]
if isinstance(answer, list):
    print("\\n".join(answer))
else:
    print("Loading project configuration...")
    print(json.dumps(answer))
    sys.exit(not answer.get("success"))
"""

ANSWERED = as_json("round 1: 2 clients asked", event="round", answered=2)


def end(set_aside):
    return as_json("done", event="end", set_aside=set_aside, run_folder="/run")


def listed(status, details=""):
    return {"success": True, "runs": [{"run-id": "7", "status": status, "status-details": details}]}


@pytest.fixture
def flower(tmp_path, monkeypatch):
    """Answer for Flower's command; return what the command line of fedcof gives."""
    program = tmp_path / "flwr.py"
    program.write_text(FLWR)
    monkeypatch.setattr(
        launching,
        "flower",
        lambda *arguments: [sys.executable, str(program), *filter(None, arguments)],
    )
    monkeypatch.setattr("fedcof.commands.run._PATIENCE", 0.0)

    def flower(log=(), outcome=None, started=None, options=(), nodes=()):
        answers = {
            "run": started or {"success": True, "run-id": "7"},
            "log": list(log),
            "list": outcome or listed("finished:completed"),
            "supernode": {"success": True, "nodes": list(nodes)},
        }
        (tmp_path / "answers.json").write_text(json.dumps(answers))
        done = CliRunner().invoke(app, ["run", "app", "hospitals", *options])
        calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
        return done, calls

    return flower


def test_a_run_in_which_all_clients_count_ends_with_0(flower):
    done, calls = flower(["INFO : Start", ANSWERED, end(0)])
    assert done.exit_code == 0, done.output
    assert "round 1: 2 clients asked" in done.output
    assert "INFO" not in done.output
    assert calls[0][:3] == ["run", "app", "hospitals"]
    assert "log-json=true" in calls[0]
    assert calls[1] == ["log", "7", "hospitals", "--stream"]


def test_a_run_that_set_a_client_aside_ends_with_3(flower):
    done, _ = flower([ANSWERED, end(2)])
    assert done.exit_code == 3


def test_a_run_that_failed_ends_with_1_and_its_reason_alone(flower):
    error = as_json("no head: 1 clients have answered", event="error")
    done, _ = flower([error], listed("finished:failed", "ServerApp failed"))
    assert done.exit_code == 1
    assert done.output.count("no head: 1 clients have answered") == 1
    assert "Traceback" not in done.output


def test_a_server_app_that_was_killed_is_told_with_how_to_go_on(flower):
    done, _ = flower([ANSWERED], listed("finished:failed", "No heartbeat"))
    assert done.exit_code == 1
    assert "finished:failed. No heartbeat" in done.output.replace("\n", " ")
    assert "run the same command again" in done.output.replace("\n", " ")


def test_flowers_refusal_is_told_in_its_words(flower):
    refused = {"success": False, "error-message": "Unknown SuperLink connection"}
    done, _ = flower(started=refused)
    assert done.exit_code == 1
    assert "flwr run: Unknown SuperLink connection" in done.output


def test_a_setting_that_the_app_does_not_have_is_named_with_a_near_one(
    flower, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app").mkdir()
    project = '[tool.flwr.app.config]\nmin-clients = 1\nrun-folder = ""\nlog-json = false\n'
    (tmp_path / "app" / "pyproject.toml").write_text(project)
    refused = {"success": False, "error-message": "[code: 15] Invalid run configuration."}
    done, _ = flower(started=refused, options=["-c", 'run-folder="of = 7" min-cleints=13'])
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert "min-cleints is not in app/pyproject.toml; did you mean min-clients?" in said


def test_a_superlink_that_is_gone_at_the_end_is_told(flower):
    done, _ = flower([ANSWERED], {"success": False, "error-message": "Connection refused"})
    assert done.exit_code == 1
    assert "Connection refused. The SuperLink does not say how the run ended" in done.output


def test_the_log_as_json_is_passed_on_as_it_is(flower):
    log = [ANSWERED, end(0)]
    done, _ = flower(["INFO : Start", *log], options=["--log-json"])
    assert done.stdout.splitlines() == log


def test_a_file_of_settings_goes_with_more_settings(flower, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('run-folder = "/srv/run 1"\nmin-clients = 3\nlog = true\n')
    _, calls = flower([end(0)], options=["-c", str(path), "-c", "seed=1"])
    given = [calls[0][i + 1] for i, word in enumerate(calls[0]) if word == "--run-config"]
    assert given == ['run-folder="/srv/run 1" min-clients=3 log=true', "seed=1", "log-json=true"]


def test_a_dry_run_shows_the_sites_and_names_those_that_are_not_online(flower):
    sites = as_json("1 site", event="readiness", sites=[{"SuperNode": "4", "wrong": "clock"}])
    nodes = [{"node-id": "4", "status": "online"}, {"node-id": "5", "status": "offline"}]
    done, calls = flower([sites, end(1)], options=["--dry-run"], nodes=nodes)
    assert done.exit_code == 3
    assert "dry-run=true" in calls[0]
    assert "clock" in done.output
    assert "SuperNode 5 is offline" in done.output


@pytest.mark.parametrize("text", ["a = [1]", "a =", "[a]\nb = 1"])
def test_a_file_that_is_no_settings_is_named(tmp_path, text):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(LaunchError, match=r"run\.toml"):
        launching.as_text(path)


@pytest.mark.parametrize("line", ["", "{", "{}", '{"event": 1}', "[1]", '"{"'])
def test_a_line_that_is_no_event_is_none(line):
    assert launching.event_of(line) is None


def test_a_threshold_of_samples_is_asked_of_all_sites(flower):
    _, calls = flower([end(0)], options=["--min-samples", "5"])
    assert 'steps="min-samples:5"' in calls[0]
    _, calls = flower([end(0)])
    assert not any("min-samples" in word for call in calls[3:] for word in call)
