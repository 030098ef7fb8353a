"""The Flower ``ServerApp``: collects the summaries and writes the head into the run folder."""

from __future__ import annotations

from collections.abc import Collection

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedcof.federation.collecting import Fault
from fedcof.federation.records import Record
from fedcof.federation.serving import HEAD, Settings, serve
from fedcof.heads import LinearHead

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation that the run configuration describes."""
    settings = Settings.from_run_config(context.run_config)
    head, _ = serve(FlowerGrid(grid), settings, tell=_print)
    _print(f"{len(head.classes)} classes, dim {head.dim}: {settings.run_folder / HEAD}")
    if context.run_config.get("train-rounds"):
        _train(grid, head, settings, context)


def _train(grid: Grid, head: LinearHead, settings: Settings, context: Context) -> None:
    # torch, which collecting does not need
    from fedcof.federation import training_server

    training_server.probe(
        grid,
        head,
        settings.job,
        training_server.settings_of(context.run_config),
        settings.run_folder,
        min_clients=settings.plan.min_clients,
        on_round=lambda one: _print(f"training, round {one.number}: loss {one.loss}"),
    )
    _print(f"trained: {settings.run_folder / training_server.HEAD}")


def _print(line: str) -> None:
    print(line, flush=True)  # ``flwr run --stream`` shows the standard output of the ServerApp


class FlowerGrid:
    """Questions and answers as Flower's messages.

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
        message = Message(content, node_id, f"query.{action}", ttl=ttl)
        # One at a time: where Flower refuses one of several, it need not say which.
        ids = [message_id for message_id in self._grid.push_messages([message]) if message_id]
        return ids[0] if ids else None

    def answer(self, question_id: str) -> Record | Fault | None:
        """Return the answer to a question, None while there is none.

        Only codes and names of classes are taken from an error: its text may hold a client's data.
        """
        try:
            # One at a time: a malformed answer raises, and takes the others of its call with it.
            for message in self._grid.pull_messages([question_id]):
                if message.has_error():
                    return Fault(_FAULTS.get(message.error.code, f"error {message.error.code}"))
                return dict(message.content.config_records["answer"])
        except Exception as error:
            return Fault(f"malformed answer ({type(error).__name__})")
        return None


_FAULTS = {
    1: "its ClientApp could not be loaded",
    2: "its ClientApp raised an exception",
    3: "its answer is not available any more",
    4: "its answer is not available any more",
    5: "it went offline",
    8: "its ClientApp died",
}
