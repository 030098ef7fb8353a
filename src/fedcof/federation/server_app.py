"""The Flower ``ServerApp``: collects the summaries and writes the head into the run folder."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedcof.errors import FedCOFError, SettingError, reason_of
from fedcof.federation.asking import Fault
from fedcof.federation.evaluating import score
from fedcof.federation.faults import fault_of
from fedcof.federation.memory import bounded
from fedcof.federation.ownership import fingerprint
from fedcof.federation.readiness import dry_run
from fedcof.federation.records import Record
from fedcof.federation.run_config import check_keys
from fedcof.federation.secure.serving import serve_securely
from fedcof.federation.serving import HEAD, REPORT, TEXTS, Settings, naming_run_folder, serve
from fedcof.federation.sources import load_clients
from fedcof.federation.status import STATUS
from fedcof.federation.watching import RunWatch, Watch, Watching, as_json
from fedcof.files import owner_only, write_atomically
from fedcof.heads import linear
from fedcof.settings import dashed_keys, read_settings

if TYPE_CHECKING:
    from fedcof.training import Round

app = ServerApp()

DRY_RUN = "dry-run.json"
"""The file of a dry run's status: that of the run stays."""

_PAUSE = 1.0
_TOGETHER = 256
"""Answers that are pulled in one call at most."""

_UNSENT = "it is offline, or the SuperLink does not take what is sent to it"


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation that the run configuration describes."""
    with owner_only(), errors_for_people(context.run_config):
        config = context.run_config
        check_keys(config)
        watching = read_settings(Watching, config)
        settings = Settings.from_run_config(config)
        name = DRY_RUN if watching.dry_run else STATUS
        with RunWatch(settings.run_folder / name, watching, _print) as watch:
            if watching.dry_run:
                try_out(FlowerGrid(grid), settings, watch)
            else:
                run(FlowerGrid(grid), context, settings, watch)


def try_out(grid: FlowerGrid, settings: Settings, watch: Watch) -> None:
    """Ask every site whether it is ready; nothing is collected."""
    plan = settings.plan
    sites = dry_run(
        grid, settings.job, min_clients=plan.min_clients, timeout=plan.timeout, watch=watch
    )
    for site in sites:
        known = f"{site.ready.clients} clients, dim {site.ready.dim}, labels {site.ready.labels}"
        watch.tell(
            f"SuperNode {site.node_id}: {'; '.join(site.wrong) or f'ready, {known}'}", event="site"
        )
    clients = sum(site.ready.clients for site in sites if not site.wrong)
    not_ready = sum(bool(site.wrong) for site in sites)
    lack = clients < plan.min_clients
    watch.tell("", event="readiness", sites=[site.row() for site in sites])
    watch.tell(
        f"{len(sites) - not_ready} of {len(sites)} sites are ready, with {clients} clients"
        + (f"; min-clients is {plan.min_clients}" if lack else ""),
        event="end",
        set_aside=not_ready + lack,
    )


def run(grid: FlowerGrid, context: Context, settings: Settings, watch: Watch) -> None:
    """Collect, solve, measure and, where there are rounds of training, train."""
    config, keys = context.run_config, dashed_keys(context.run_config)
    source = str(config.get(keys.get("test-data", ""), ""))
    with naming_test_data(source):
        test = load_clients(source, context, settings.job.reading) if source else {}
    training = None
    if config.get(keys.get("train-rounds", "")):
        # torch, which collecting does not need
        from fedcof.federation.training.server import Training, collected

        training = Training.from_run_config(config, settings, test)
    trainers = 0 if training is None else settings.plan.min_clients
    run_federation = serve_securely if settings.secure.secure else serve
    head, report, nodes = run_federation(grid, settings, watch=watch, online=trainers)
    watch.tell(
        f"{len(head.classes)} classes, dim {head.dim}: {settings.run_folder / HEAD}",
        event="head",
        classes=len(head.classes),
        dim=head.dim,
    )
    accuracy = math.nan
    if test:
        with naming_test_data(source):
            accuracy = score(head, test, settings.job.backbone)
        watch.show(accuracy=accuracy)
        watch.tell(f"accuracy on {source}: {accuracy:.1%}", event="accuracy", accuracy=accuracy)
    if training is not None:
        watch.show(state="training")
        with naming_run_folder(settings.run_folder):
            history = [collected(settings, accuracy)]
            tell = partial(_tell_round, watch)
            training.run(grid, nodes, linear(head), history=history, on_round=tell)
        watch.tell(f"trained: {settings.run_folder}", event="trained")
    set_aside = report.missing.keys() | report.refused.keys() | report.misfit.keys()
    lack = [f"{len(set_aside)} clients set aside"] * bool(set_aside)
    lack += [f"{len(report.unnamed)} SuperNodes named no clients"] * bool(report.unnamed)
    watch.tell(
        f"done, {', '.join(lack)}: see {settings.run_folder / REPORT}"
        if lack
        else "done, every client counts",
        event="end",
        set_aside=len(set_aside) + len(report.unnamed),
        run_folder=str(settings.run_folder),
    )


@contextmanager
def errors_for_people(config: Mapping[str, Any]) -> Iterator[None]:
    """Print an error as one line; the run still counts as failed.

    Flower marks a run as failed when its ServerApp raises, and logs that with a traceback, which
    is kept out of Flower's log where the error has been printed. Of an error that is a fault of
    fedcof itself the traceback is in a file of the run folder.
    """
    try:
        yield
    except Exception as error:
        text = reason_of(error)
        if not isinstance(error, FedCOFError | ValueError | OSError | ImportError):
            text = f"{type(error).__name__}: {text}{_with_traceback(config, error)}"
        structured = config.get("log-json", config.get("log_json", False)) is True
        _print(as_json(text, event="error") if structured else f"error: {text}")
        logging.getLogger("flwr").addFilter(partial(_is_not_about, error))
        raise


def _with_traceback(config: Mapping[str, Any], error: Exception) -> str:
    """Write the traceback of an error into the run folder, and say so."""
    folder = config.get("run-folder", config.get("run_folder", TEXTS["run-folder"]))
    path = Path(str(folder)).absolute() / "error.log"
    with suppress(OSError):
        write_atomically(path, "".join(format_exception(error)).encode())
        return f" ({path} has the traceback; what was collected is kept)"
    return ""


@contextmanager
def naming_test_data(source: str) -> Iterator[None]:
    """Put the setting in front of what is wrong with the server's test set."""
    try:
        yield
    except (FedCOFError, OSError, ImportError) as error:
        raise SettingError("test-data", f"{source}: {error}") from error


def _is_not_about(error: BaseException, record: logging.LogRecord) -> bool:
    return record.exc_info is None or record.exc_info[1] is not error


def _tell_round(watch: Watch, done: Round) -> None:
    if done.loss is None:
        return
    accuracy = "" if math.isnan(done.accuracy) else f", accuracy {done.accuracy:.1%}"
    known = {
        "number": done.number,
        "clients": done.clients,
        "loss": done.loss,
        "accuracy": None if math.isnan(done.accuracy) else done.accuracy,
    }
    watch.show(training=known)
    watch.tell(
        f"training, round {done.number}: {done.clients} clients, loss {done.loss:.4f}{accuracy}",
        event="training-round",
        **known,
    )
    for refused in done.refused:
        watch.tell(f"  refused {refused}", event="training-refused")


def _print(line: str) -> None:
    print(line, flush=True)  # ``flwr run --stream`` shows the standard output of the ServerApp


class FlowerGrid:
    """Questions and answers as Flower's messages.

    Questions go one at a time: where Flower refuses one of several, it need not say which. Answers
    are pulled many at a time, as thousands of SuperNodes answer with a few kilobytes each. A
    malformed one raises, and takes the others of its call with it: their questions are asked again,
    and from then on every answer of this run is pulled alone.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._known: dict[int, tuple[str, bytes]] = {}
        self._online: list[int] = []
        self._largest = 0
        self._usual = 0
        self._together = _TOGETHER

    def online(self) -> Collection[int]:
        """Return the ids of the SuperNodes that are connected, in the order of registration.

        Flower's simulation goes through them in this order, each time past all questions that are
        open: in another one, a round of thousands takes as long as the square of their number.
        """
        ids = set(self._grid.get_node_ids())
        if ids != set(self._online):
            self._online = sorted(ids, key=lambda id_: (self._information(id_)[0], id_))
        return self._online

    def key(self, node_id: int) -> str:
        """Return the fingerprint of a SuperNode's public key; empty where it has none."""
        return fingerprint(self._information(node_id)[1])

    def _information(self, node_id: int) -> tuple[str, bytes]:
        """Return when a SuperNode was registered, and its public key."""
        if node_id not in self._known:
            self._known = {
                node.node_id: (node.registered_at, node.public_key)
                for node in self._grid.get_nodes()
            }
        return self._known.get(node_id, ("", b""))

    def ask(self, node_id: int, action: str, question: Record, ttl: float) -> str | None:
        """Send a question; return its id, None if the SuperLink does not take it."""
        self._largest = max(self._largest, int(question.get("limit", 0)))
        content = RecordDict({"question": ConfigRecord(dict(question))})
        return self._push(Message(content, node_id, f"query.{action}", ttl=ttl))

    def answers(self, question_ids: Collection[str]) -> Iterator[tuple[str, Record | Fault]]:
        """Yield the answers that are there, each after the id of its question."""
        waiting = list(question_ids)
        while waiting:
            # So many that they fit into one largest answer, if all are as large as those so far.
            fit = self._largest // self._usual if self._usual else self._together
            number = max(1, min(self._together, fit))
            some, waiting = waiting[:number], waiting[number:]
            for question_id, content in self._pull(some):
                if isinstance(content, Fault):
                    yield question_id, content
                    continue
                record = content.config_records.get("answer")
                if record is None:
                    yield question_id, Fault("malformed answer (no record)")
                    continue
                blob = record.get("blob", b"")
                self._usual = max(self._usual, len(blob) if isinstance(blob, bytes) else 0)
                yield question_id, dict(record)

    def train(
        self, contents: Mapping[str, tuple[int, RecordDict]], *, timeout: float
    ) -> list[tuple[str, RecordDict | Fault]]:
        """Send train messages to nodes; return the answers that come in time, each with its key."""
        waiting: dict[str, str] = {}
        answers: list[tuple[str, RecordDict | Fault]] = []
        for key, (node_id, content) in contents.items():
            self._largest = max([self._largest, *map(_size, content.array_records.values())])
            # It expires after our deadline, so that this loop decides what comes too late.
            message_id = self._push(Message(content, node_id, MessageType.TRAIN, ttl=2 * timeout))
            if message_id is None:
                answers.append((key, Fault(_UNSENT, gone=node_id not in self.online())))
            else:
                waiting[message_id] = key
        deadline = time.monotonic() + timeout
        while waiting:
            arrived = [pulled for id_ in waiting for pulled in self._pull([id_])]
            answers += [(waiting.pop(id_), answer) for id_, answer in arrived]
            if time.monotonic() > deadline:
                break
            if not arrived:
                time.sleep(_PAUSE)
        return answers

    def _push(self, message: Message) -> str | None:
        ids = [message_id for message_id in self._grid.push_messages([message]) if message_id]
        return ids[0] if ids else None

    def _pull(self, message_ids: list[str]) -> list[tuple[str, RecordDict | Fault]]:
        """Return the contents of the replies to some messages that are there, each after its id.

        Only codes and names of classes are taken from an error: its text may hold a client's data.
        What is much larger than the largest answer that was asked for is not taken in.
        """
        alone = len(message_ids) == 1
        try:
            with bounded(self._largest):
                messages = list(self._grid.pull_messages(message_ids))
            found: dict[str, RecordDict | Fault] = {
                message_ids[0] if alone else message.metadata.reply_to_message_id: (
                    fault_of(message.error) if message.has_error() else message.content
                )
                for message in messages
            }
            if stray := found.keys() - set(message_ids):
                raise ValueError(f"{len(stray)} answers to questions that were not asked")
            return list(found.items())
        except Exception as error:
            if alone:
                return [(message_ids[0], Fault(f"malformed answer ({type(error).__name__})"))]
        self._together = 1
        again = [pulled for message_id in message_ids for pulled in self._pull([message_id])]
        return [  # whose answer was malformed shows when it is asked again
            (id_, replace(pulled, blameless=True) if isinstance(pulled, Fault) else pulled)
            for id_, pulled in again
        ]


def _size(arrays: ArrayRecord) -> int:
    return sum(len(array.data) for array in arrays.values())
