"""The Flower ``ServerApp``: collects the summaries and writes the head into the run folder."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedcof.federation.collecting import Fault
from fedcof.federation.evaluating import score
from fedcof.federation.faults import MALFORMED, UNSENT, fault_of
from fedcof.federation.records import Record
from fedcof.federation.serving import HEAD, Settings, serve
from fedcof.federation.sources import load_clients
from fedcof.heads import LinearHead

if TYPE_CHECKING:
    from fedcof.federation.training_server import Training
    from fedcof.training import Round

app = ServerApp()

_PAUSE = 1.0


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation that the run configuration describes."""
    settings = Settings.from_run_config(context.run_config)
    source = str(context.run_config.get("test-data", ""))
    test = load_clients(source, context) if source else {}
    training = None
    if context.run_config.get("train-rounds"):
        # torch, which collecting does not need
        from fedcof.federation.training_server import Training

        training = Training.from_run_config(context.run_config, settings, test)
    head, _ = serve(FlowerGrid(grid), settings, tell=_print)
    _print(f"{len(head.classes)} classes, dim {head.dim}: {settings.run_folder / HEAD}")
    accuracy = math.nan
    if test:
        accuracy = score(head, test, settings.job.backbone)
        _print(f"accuracy on {source}: {accuracy:.1%}")
    if training is not None:
        _train(grid, head, training, accuracy)


def _train(grid: Grid, head: LinearHead, training: Training, accuracy: float) -> None:
    from fedcof.federation.training_server import collected

    # Flower's strategies tell that they asked one node: here, each client is told of below.
    logging.getLogger("flwr").setLevel(logging.WARNING)
    history = [collected(training.federation, accuracy)]
    training.run(FlowerGrid(grid), head, history=history, on_round=_tell)
    _print(f"trained: {training.federation.run_folder}")


def _tell(one: Round) -> None:
    if one.loss is None:
        return
    accuracy = "" if math.isnan(one.accuracy) else f", accuracy {one.accuracy:.1%}"
    _print(f"training, round {one.number}: {one.clients} clients, loss {one.loss:.4f}{accuracy}")
    for refused in one.refused:
        _print(f"  refused {refused}")


def _print(line: str) -> None:
    print(line, flush=True)  # ``flwr run --stream`` shows the standard output of the ServerApp


class FlowerGrid:
    """Questions and answers as Flower's messages.

    Messages go and come one at a time: where Flower refuses one of several, it need not say which,
    and a malformed answer raises, and takes the others of its call with it.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def online(self) -> Collection[int]:
        """Return the ids of the SuperNodes that are connected."""
        return list(self._grid.get_node_ids())

    def ask(self, node_id: int, action: str, question: Record, ttl: float) -> str | None:
        """Send a question; return its id, None if the SuperLink does not take it."""
        content = RecordDict({"question": ConfigRecord(dict(question))})
        return self._push(Message(content, node_id, f"query.{action}", ttl=ttl))

    def answer(self, question_id: str) -> Record | Fault | None:
        """Return the answer to a question, None while there is none.

        Only codes and names of classes are taken from an error: its text may hold a client's data.
        """
        try:
            for message in self._grid.pull_messages([question_id]):
                if message.has_error():
                    return Fault(fault_of(message.error))
                return dict(message.content.config_records["answer"])
        except Exception as error:
            return Fault(f"malformed answer ({type(error).__name__})")
        return None

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send messages; return the replies that come in time, errors for those that cannot."""
        sent = [(self._push(message), message) for message in messages]
        waiting = {message_id: message for message_id, message in sent if message_id}
        replies = [_failure(UNSENT, message) for message_id, message in sent if not message_id]
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while waiting:
            came = [reply for one in waiting.items() if (reply := self._reply(*one)) is not None]
            for reply in came:
                del waiting[reply.metadata.reply_to_message_id]
            replies += came
            if time.monotonic() > deadline:
                break
            if not came:
                time.sleep(_PAUSE)
        return replies

    def _push(self, message: Message) -> str | None:
        ids = [message_id for message_id in self._grid.push_messages([message]) if message_id]
        return ids[0] if ids else None

    def _reply(self, message_id: str, message: Message) -> Message | None:
        try:
            return next(iter(self._grid.pull_messages([message_id])), None)
        except Exception:
            return _failure(MALFORMED, message)


def _failure(code: int, message: Message) -> Message:
    return Message(Error(code, ""), reply_to=message)
