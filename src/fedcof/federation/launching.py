"""Starting a run by Flower's own command, and following it to its end.

The server app says what happens as JSON objects, one a line (`log-json`); what else its log holds
is Flower's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fedcof.errors import LaunchError
from fedcof.installation import install_line

_KEY = re.compile(r"""([^\s=]+)\s*=\s*(?:'[^']*'|"[^"]*"|\S+)""")
"""A key of a run configuration, with its value behind it."""


@dataclass(frozen=True)
class Run:
    """A run that Flower has started.

    Parameters
    ----------
    id : str
    superlink : str
        The connection's name in Flower's configuration; empty for its default.
    """

    id: str
    superlink: str

    def lines(self) -> Iterator[str]:
        """Yield the lines of the server app's log until it ends, or the connection does."""
        command = flower("log", self.id, self.superlink, "--stream")
        with subprocess.Popen(
            command,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
        ) as process:
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    yield line.rstrip("\n")
            finally:
                process.terminate()

    def outcome(self) -> tuple[str, str]:
        """Return the run's status, such as ``finished:completed``, and its details.

        Raises
        ------
        LaunchError
            If the SuperLink does not say.
        """
        document = ask("list", self.superlink, "--run-id", self.id)
        [known] = document["runs"]
        return str(known["status"]), str(known.get("status-details", ""))


def start(app: str, superlink: str, run_config: Sequence[str]) -> Run:
    """Start a run of an app.

    Raises
    ------
    LaunchError
        If Flower refuses it, with Flower's words, and the setting that the app does not have.
    """
    overrides = [word for text in run_config for word in ("--run-config", text)]
    try:
        document = ask("run", app, superlink, *overrides)
    except LaunchError as error:
        raise LaunchError(f"{error}{_unknown_key(Path(app), run_config)}") from None
    return Run(str(document["run-id"]), superlink)


def _unknown_key(app: Path, run_config: Sequence[str]) -> str:
    """Return which key is not in an app's configuration, which Flower does not say."""
    try:
        project = tomllib.loads((app / "pyproject.toml").read_text(encoding="utf-8"))
        known = project["tool"]["flwr"]["app"]["config"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    for key in _KEY.findall(" ".join(run_config)):
        if key not in known:
            near = " or ".join(get_close_matches(key, known))
            return f" {key} is not in {app / 'pyproject.toml'}" + f"; did you mean {near}?" * bool(
                near
            )
    return ""


def sites(superlink: str) -> list[dict[str, Any]]:
    """Return the SuperNodes that are registered, each with its ``node-id`` and ``status``."""
    nodes: list[dict[str, Any]] = ask("supernode", "list", superlink)["nodes"]
    return nodes


def as_text(path: Path) -> str:
    """Return a TOML file of a run configuration as ``key=value ...``, to which more can be added.

    Raises
    ------
    LaunchError
        If it is no such file.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LaunchError(f"{path} cannot be read as TOML: {error}") from None
    if nested := [key for key, value in content.items() if isinstance(value, Mapping | list)]:
        raise LaunchError(f"{path}: {nested[0]} is no setting; every line is key = value")
    return " ".join(f"{key}={json.dumps(value)}" for key, value in content.items())


def ask(*arguments: str) -> dict[str, Any]:
    """Return what one of Flower's commands says with ``--format json``.

    Raises
    ------
    LaunchError
        If it fails.
    """
    command = flower(*arguments, "--format", "json")
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    document = _json_in(done.stdout)
    if done.returncode or document is None or not document.get("success"):
        said = (document or {}).get("error-message") or done.stderr.strip() or done.stdout.strip()
        raise LaunchError(f"flwr {arguments[0]}: {_one_line(said) or 'it says nothing'}")
    return document


def flower(*arguments: str) -> list[str]:
    """Return one of Flower's commands; empty arguments are left out.

    Raises
    ------
    LaunchError
        If Flower is not installed.
    """
    beside = Path(sys.executable).with_name("flwr")
    program = str(beside) if beside.exists() else shutil.which("flwr")
    if program is None:
        raise LaunchError(f"Flower is not installed: {install_line('flower')}")
    return [program, *filter(None, arguments)]


def event_of(line: str) -> dict[str, Any] | None:
    """Return the event that a line of the server app's log is; None for any other line."""
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and {"event", "message"} <= event.keys() else None


def _json_in(text: str) -> dict[str, Any] | None:
    """Return the JSON object in an output that may have lines before it."""
    begin = text.find("{")
    try:
        document = json.JSONDecoder().raw_decode(text[begin:])[0] if begin >= 0 else None
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]
