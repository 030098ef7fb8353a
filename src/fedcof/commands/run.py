"""``fedcof run``: a run of the Flower app, started, followed and waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcof.commands.shared import EXIT_LEFT_OUT, errors_for_people, note, print_table, say
from fedcof.errors import LaunchError

if TYPE_CHECKING:
    from fedcof.federation.launching import Run

_PATIENCE = 90.0
"""Seconds until Flower has noticed that a server app died."""


def run(
    app: Annotated[str, typer.Argument(help="Folder of the Flower app, from `fedcof app new`.")],
    superlink: Annotated[
        str, typer.Argument(help="The connection's name in Flower's configuration.")
    ] = "",
    *,
    run_config: Annotated[
        list[str] | None,
        typer.Option(
            "--run-config",
            "-c",
            help="Settings of the run, 'key=value key=value', or a TOML file; may be repeated.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only ask every site whether it is ready, and say who is."),
    ] = False,
    min_samples: Annotated[
        int,
        typer.Option(
            min=1,
            help="Ask every site to withhold classes of fewer samples; its own larger number "
            "counts. Not beside steps in --run-config.",
        ),
    ] = 1,
    log_json: Annotated[
        bool,
        typer.Option("--log-json", help="Print every line of the log as a JSON object."),
    ] = False,
) -> None:
    """Run the Flower app and wait: ends with 0, with 3 if a client was set aside, 1 if it failed.

    Ctrl-C ends only the view.
    """
    from fedcof.federation import launching

    with errors_for_people():
        settings = [
            launching.as_text(Path(text)) if text.endswith(".toml") else text
            for text in [
                *(run_config or []),
                "log-json=true",
                *["dry-run=true"] * dry_run,
                *[f'steps="min-samples:{min_samples}"'] * (min_samples > 1),
            ]
        ]
        started = launching.start(app, superlink, settings)
        with _saying_how_to_go_on(started):
            follower = _Follower(log_json)
            follower.follow(started)
            status, details = _outcome(started)
            if status == "finished:completed" and follower.end is None:
                follower.follow(started, quietly=True)  # the stream was cut: it is there from start
        if dry_run and not log_json:
            _name_absent(superlink)
        raise typer.Exit(follower.exit_status(status, details))


class _Follower:
    """Shows what a run says, and remembers how it ended."""

    def __init__(self, log_json: bool) -> None:
        self._log_json = log_json
        self.end: dict[str, Any] | None = None
        self._error = ""

    def follow(self, started: Run, *, quietly: bool = False) -> None:
        """Show the run's log until it ends."""
        from fedcof.federation.launching import event_of
        from fedcof.progress import progress_bar

        if self._log_json:
            for line in started.lines():
                if (event := event_of(line)) is not None:
                    self._remember(event)
                    if not quietly:
                        say(line)
            return
        with progress_bar("Waiting for clients", None, unit="clients") as advance:
            settled = 0
            for line in started.lines():
                event = event_of(line)
                if event is None:
                    continue
                self._remember(event)
                if event["event"] == "progress":
                    title = event["message"].capitalize()
                    advance(event["settled"] - settled, title, total=event["known"])
                    settled = event["settled"]
                elif event["event"] == "readiness":
                    print_table(event["sites"], title="Sites")
                elif not quietly and event["event"] != "error":
                    say(event["message"])

    def _remember(self, event: dict[str, Any]) -> None:
        if event["event"] == "end":
            self.end = event
        elif event["event"] == "error":
            self._error = event["message"]

    def exit_status(self, status: str, details: str) -> int:
        """Return the command's exit status, and say why where the run failed."""
        if status == "finished:completed":
            return EXIT_LEFT_OUT if self.end and self.end["set_aside"] else 0
        told = self._error or f"{status}. {details}".strip()
        if not self._error:
            told += " What was collected is kept: run the same command again to go on"
        raise LaunchError(told)


@contextmanager
def _saying_how_to_go_on(started: Run) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        where = f" {started.superlink}" if started.superlink else ""
        note(
            f"the run goes on: flwr log {started.id}{where} shows it again, "
            f"flwr stop {started.id}{where} ends it"
        )
        raise typer.Exit(130) from None


def _outcome(started: Run) -> tuple[str, str]:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            status, details = started.outcome()
        except LaunchError as error:
            raise LaunchError(
                f"{error}. The SuperLink does not say how the run ended; start it if it is down. "
                "What was collected is kept: run the same command again to go on"
            ) from None
        if status.startswith("finished") or time.monotonic() > deadline:
            return status, details
        time.sleep(1.0)


def _name_absent(superlink: str) -> None:
    """Name the SuperNodes that are registered and not online, whom the server cannot ask."""
    from fedcof.federation.launching import sites

    for site in sites(superlink):
        if site["status"] in ("registered", "offline"):
            note(
                f"SuperNode {site['node-id']} is {site['status']}: stopped, without a connection, "
                "or with a clock that is more than 5 s ahead of the SuperLink's or 5 minutes "
                "behind; `fedcof app check` at that site says which"
            )
