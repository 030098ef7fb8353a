"""What a SuperNode does with a question: it answers for its clients, whatever fails in them."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np

from fedcof import __version__
from fedcof.errors import SummaryError
from fedcof.federation.records import DESCRIBE, Answer, Job, Record, Roster, code_of, fault_record
from fedcof.federation.secure.answering import answer as secure_answer
from fedcof.federation.secure.statistic import SECURE
from fedcof.federation.skew import version_fault
from fedcof.federation.sources import Clients, extract, known_sizes, load_clients

_log = logging.getLogger(__name__)


def answer(action: str, question: Record, context: Any) -> dict[str, Any]:
    """Answer a question of the server.

    The full error goes into this process's log; the server gets a code only.

    Parameters
    ----------
    action : {"describe", "summarize", "secure"}
    question : Record
        The job; for "summarize" also the clients and the largest number of bytes to send; for
        "secure" what `secure.answering` says.
    context : flwr.app.Context
        The SuperNode's.

    Returns
    -------
    dict
        A `Roster` or an `Answer` as a record, or the code of what went wrong.
    """
    try:
        if fault := version_fault(str(question.get("version", "")), at="the server"):
            _log.warning(fault)
        job = Job.from_record(question)
        source = str(context.node_config.get("data", job.data))
        clients = load_clients(source, context, job.reading)
        if action == DESCRIBE:
            return describe(job, clients).to_record()
        if action == SECURE:
            return secure_answer(job, clients, question, context).to_record()
        return summaries(job, clients, question["clients"], int(question["limit"])).to_record()
    except BaseException as error:  # a user's load_data may call exit, or raise anything
        _log.error("cannot answer %r: %s", action, code_of(error), exc_info=error)
        return fault_record(error)


def describe(job: Job, clients: Clients) -> Roster:
    """Return what the server may know of the clients before they are asked for a summary.

    Where a step changes what a client sends, such as noise on its counts, no number is announced.
    """
    samples, classes = ({}, {}) if job.sender.steps else known_sizes(clients)
    return Roster(
        sorted(clients), samples=samples, classes=classes, version=__version__, clock=time.time()
    )


def summaries(job: Job, clients: Clients, wanted: list[str], limit: int) -> Answer:
    """Return the summaries of the clients wanted, as many as go into `limit` bytes.

    A client whose summary alone is larger fails with the code "too-large".
    """
    done: dict[str, bytes] = {}
    failed: dict[str, str] = {}
    size = 0
    for client_id in wanted:
        try:
            data = summary_bytes(job, clients, client_id)
        except BaseException as error:  # one client's fault is not that of the others
            _log.error("client %r: %s", client_id, code_of(error), exc_info=error)
            failed[client_id] = code_of(error)
            continue
        if len(data) > limit:
            failed[client_id] = "too-large"
            continue
        size += len(data)
        if size > limit:
            break
        done[client_id] = data
    return Answer(done, failed)


def summary_bytes(job: Job, clients: Clients, client_id: str) -> bytes:
    """Return what one client sends."""
    features, labels, origin = extract(*clients[client_id], job.backbone)
    sent = job.sender.send(
        features,
        labels,
        client_id=client_id,
        origin=origin or job.origin,
        noise=np.random.default_rng(),  # the server knows the seed of the run
    )
    if sent is None:
        raise SummaryError("withheld", "a step leaves nothing of this client's summary")
    return sent.data
