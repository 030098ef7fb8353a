"""The Flower ``ClientApp``: every SuperNode answers for the clients whose data it holds."""

from __future__ import annotations

import logging
from functools import partial

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedcof.federation.responses import RESPONSES

app = ClientApp()


def _query(action: str, message: Message, context: Context) -> Message:
    if "partition-id" not in context.node_config:  # a site, and no node of a simulation
        _show_what_leaves()
    record = RESPONSES[action](dict(message.content["question"]), context)
    return Message(RecordDict({"answer": ConfigRecord(record)}), reply_to=message)


for _action in RESPONSES:
    app.query(_action)(partial(_query, _action))


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on the data of one client."""
    # torch, which summaries do not need
    from fedcof.federation.training import client

    return client.train(message, context)


def _show_what_leaves() -> None:
    """Let the SuperNode's log have what fedcof says, from INFO on, such as what leaves."""
    log = logging.getLogger("fedcof")
    if not log.hasHandlers():
        log.addHandler(logging.StreamHandler())
        log.setLevel(logging.INFO)
