"""What a SuperNode does with a question: it answers for its clients, whatever fails in them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fedcof import __version__
from fedcof.client import Held, Sent
from fedcof.federation.records import DESCRIBE, Answer, Job, Record, Roster, code_of, fault_record
from fedcof.federation.secure.answering import answer as secure_answer
from fedcof.federation.secure.statistic import SECURE
from fedcof.federation.skew import version_fault
from fedcof.federation.sources import Site, extract, known_sizes, load_site
from fedcof.privacy.policy import local_guarantee, nothing_left

_log = logging.getLogger(__name__)


def answer(action: str, question: Record, context: Any) -> dict[str, Any]:
    """Answer a question of the server.

    The full error goes into this process's log; the server gets a code only.

    Parameters
    ----------
    action : {"describe", "summarize", "secure"}
    question : Record
        The job; for "summarize" also the clients and the largest number of bytes to send; for
        "describe" that number alone where summaries are to go along with the names; for "secure"
        what `secure.answering` says.
    context : flwr.app.Context
        The SuperNode's.

    Returns
    -------
    dict
        A `Roster`, an `Answer` or both as a record, or the code of what went wrong.
    """
    try:
        fault = version_fault(str(question.get("version", "")), at="the server")
        if fault:
            _log.warning(fault)
        job = Job.from_record(question)
        site = load_site(job.data, context, job.reading)
        if action == DESCRIBE:
            roster = describe(job, site)
            if fault or "limit" not in question:
                return roster.to_record()
            along = summaries(job, site, roster.client_ids, int(question["limit"]))
            return {**roster.to_record(), **along.to_record()}
        if action == SECURE:
            return secure_answer(job, site, question, context).to_record()
        return summaries(job, site, question["clients"], int(question["limit"])).to_record()
    except BaseException as error:  # a user's load_data may call exit, or raise anything
        _log.error("cannot answer %r: %s", action, code_of(error), exc_info=error)
        return fault_record(error)


def describe(job: Job, site: Site) -> Roster:
    """Return what the server may know of the clients before they are asked for a summary.

    Where a step changes what a client sends, such as noise on its counts, or the site withholds
    something of it, no number is announced.
    """
    clients = site.clients
    silent = bool(job.sender.steps) or site.policy.withholds or site.dry_run
    samples, classes = ({}, {}) if silent else known_sizes(clients)
    return Roster(
        sorted(clients), samples=samples, classes=classes, version=__version__, clock=time.time()
    )


def summaries(job: Job, site: Site, wanted: Sequence[str], limit: int) -> Answer:
    """Return the summaries of the clients wanted, as many as go into `limit` bytes.

    A client whose summary alone is larger fails with the code "too-large".
    """
    done: dict[str, bytes] = {}
    failed: dict[str, str] = {}
    withheld: dict[str, tuple[int, int]] = {}
    size, release = 0, f"summary for {job.sender.method.name}"
    guarantee = local_guarantee(job.sender)
    for client_id, sent in what_leaves(job, site, wanted):
        try:
            if isinstance(sent, BaseException):
                raise sent
            site.check_not_dry()
            fits = size + sent.wire_bytes <= limit
            if fits:
                site.policy.spend(client_id, guarantee, release=release)
        except BaseException as error:  # one client's fault is not that of the others
            _log.error("client %r: %s", client_id, code_of(error), exc_info=error)
            failed[client_id] = code_of(error)
            continue
        if sent.wire_bytes > limit:
            failed[client_id] = "too-large"
            continue
        if not fits:
            break
        size += sent.wire_bytes
        done[client_id] = sent.data
        if site.policy.report_withheld and sent.withheld:
            withheld[client_id] = (sent.withheld.classes, sent.withheld.samples)
    return Answer(done, failed, withheld)


def what_leaves(
    job: Job, site: Site, wanted: Iterable[str]
) -> Iterator[tuple[str, Sent | BaseException]]:
    """Yield what each client sends, as far as its site's policy allows it, or why it sends nothing.

    A few clients are read before one of them is yielded. One that cannot be read ends these few,
    since its error holds what was read of it.
    """
    left = iter(wanted)
    unreadable: list[tuple[str, BaseException]] = []

    def readable() -> Iterator[Held]:
        for client_id in left:
            try:
                held = _held(job, site, client_id)
            except BaseException as error:  # whatever a user's data raises
                unreadable.append((client_id, error))
                return
            yield held

    while True:
        for few in job.sender.a_few_at_a_time(readable()):
            yield from _sent(job, site, few)
        if not unreadable:
            return
        yield unreadable.pop()


def _held(job: Job, site: Site, client_id: str) -> Held:
    """Return what a client has.

    Raises
    ------
    SummaryError
        If the site's policy does not allow the job, or the client's budget is spent.
    """
    # before anything is read or computed
    site.policy.check(job.sender, backbone=job.backbone)
    site.policy.check_left(client_id, local_guarantee(job.sender))
    features, labels, origin = extract(*site.clients[client_id], job.backbone)
    return Held(features, labels, client_id, origin or job.origin)


def _sent(
    job: Job, site: Site, clients: Sequence[Held]
) -> Iterator[tuple[str, Sent | BaseException]]:
    try:
        sent = site.policy.send_each(job.sender, clients, backbone=job.backbone)
    except BaseException as error:
        if len(clients) == 1:
            yield clients[0].client_id, error
            return
        for held in clients:  # to find whose fault it is
            yield from _sent(job, site, [held])
        return
    for held, own in zip(clients, sent, strict=True):
        yield held.client_id, nothing_left(held.client_id) if own is None else own
