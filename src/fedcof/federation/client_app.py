"""The Flower ``ClientApp``: every SuperNode answers for the clients whose data it holds."""

from __future__ import annotations

import logging

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedcof.federation.answering import answer
from fedcof.federation.delivering import KEEP, keep
from fedcof.federation.readiness import CHECK, check
from fedcof.federation.records import DESCRIBE, SUMMARIZE
from fedcof.federation.secure.statistic import SECURE

app = ClientApp()


@app.query(DESCRIBE)
def describe(message: Message, context: Context) -> Message:
    """Name the clients of this SuperNode."""
    return _answer(DESCRIBE, message, context)


@app.query(SUMMARIZE)
def summarize(message: Message, context: Context) -> Message:
    """Send the summaries of clients."""
    return _answer(SUMMARIZE, message, context)


@app.query(SECURE)
def secure(message: Message, context: Context) -> Message:
    """Take a step of a sum over clients, of which the server is told the total alone."""
    return _answer(SECURE, message, context)


@app.query(CHECK)
def ready(message: Message, context: Context) -> Message:
    """Say whether this SuperNode could answer."""
    record = check(dict(message.content["question"]), context)
    return Message(RecordDict({"answer": ConfigRecord(record)}), reply_to=message)


@app.query(KEEP)
def take_home(message: Message, context: Context) -> Message:
    """Keep the heads of this SuperNode's clients."""
    record = keep(dict(message.content["question"]), context)
    return Message(RecordDict({"answer": ConfigRecord(record)}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on the data of one client."""
    # torch, which summaries do not need
    from fedcof.federation.training import client

    return client.train(message, context)


def _answer(action: str, message: Message, context: Context) -> Message:
    if "partition-id" not in context.node_config:  # a site, and no node of a simulation
        _show_what_leaves()
    record = answer(action, dict(message.content["question"]), context)
    return Message(RecordDict({"answer": ConfigRecord(record)}), reply_to=message)


def _show_what_leaves() -> None:
    """Let the SuperNode's log have what fedcof says, from INFO on, such as what leaves."""
    log = logging.getLogger("fedcof")
    if not log.hasHandlers():
        log.addHandler(logging.StreamHandler())
        log.setLevel(logging.INFO)
