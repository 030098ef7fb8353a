"""Heads of sites on their way home: the server sends every client its own, the site keeps it.

The server asks a SuperNode to ``keep`` heads, framed as an `Answer` is; the answer names those that
were not kept, with a code. A site keeps heads where its node configuration says ``heads="FOLDER"``.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedcof.errors import AnswerError
from fedcof.federation.asking import Fault, Grid
from fedcof.federation.plan import Plan
from fedcof.federation.records import Answer, Job, Record, code_of, fault_record
from fedcof.federation.sources import load_clients
from fedcof.files import file_names, write_atomically

KEEP = "keep"

SUFFIX = ".safetensors"

_log = logging.getLogger(__name__)


def keep(question: Record, context: Any) -> dict[str, Any]:
    """Write the heads of this SuperNode's clients into the folder that its configuration names.

    Returns
    -------
    dict
        An `Answer` as a record: the clients whose heads were not kept, with the code; or the code
        of what went wrong.
    """
    try:
        heads = Answer.from_record(question, limit=len(question["blob"])).summaries
        folder = context.node_config.get("heads")
        if not folder:
            return Answer(failed=dict.fromkeys(heads, "no-heads-folder")).to_record()
        job = Job.from_record(question)
        source = str(context.node_config.get("data", job.data))
        names = file_names(sorted(load_clients(source, context, job.reading)), SUFFIX)
        for client_id in heads.keys() & names.keys():
            write_atomically(Path(str(folder)) / names[client_id], heads[client_id])
        foreign = dict.fromkeys(sorted(heads.keys() - names.keys()), "not-here")
        return Answer(failed=foreign).to_record()
    except BaseException as error:  # a user's load_data may call exit, or raise anything
        _log.error("cannot keep heads: %s", code_of(error), exc_info=error)
        return fault_record(error)


def deliver(
    grid: Grid,
    job: Job,
    heads: Mapping[str, Path],
    nodes: Mapping[str, int],
    plan: Plan,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    pause: float = 1.0,
) -> dict[str, str]:
    """Send every client its head; return those whom theirs has not reached, with the reason.

    Parameters
    ----------
    grid : Grid
    job : Job
    heads : mapping of str to path
        The file of every client's head.
    nodes : mapping of str to int
        The SuperNode of every client that is online.
    plan : Plan
        How long to wait for an answer, and how large a message may be; one head always goes.
    now, sleep, pause
        As those of `Collector`.
    """
    missed = {name: "its SuperNode is offline" for name in heads if name not in nodes}
    waiting: defaultdict[int, list[str]] = defaultdict(list)
    for name in heads:
        if name in nodes:
            waiting[nodes[name]].append(name)
    open_questions: dict[int, tuple[str, list[str], float]] = {}
    while waiting or open_questions:
        for node_id in waiting.keys() - open_questions.keys():
            sent = _next(heads, waiting[node_id], plan.max_message)
            if not waiting[node_id]:
                del waiting[node_id]
            question = job.to_record() | Answer(sent).to_record()
            question_id = grid.ask(node_id, KEEP, question, plan.timeout)
            if question_id is None:
                missed |= dict.fromkeys(sent, "the question could not be sent")
            else:
                open_questions[node_id] = question_id, list(sent), now() + plan.timeout
        arrived = dict(grid.answers([question_id for question_id, *_ in open_questions.values()]))
        for node_id, (question_id, names, deadline) in list(open_questions.items()):
            answer = arrived.get(question_id)
            if answer is None and now() < deadline:
                continue
            del open_questions[node_id]
            if isinstance(answer, Fault) and answer.blameless:
                waiting[node_id] += names
                continue
            missed |= _failed(answer, names, plan.timeout)
        if open_questions:
            sleep(pause)
    return missed


def _next(heads: Mapping[str, Path], names: list[str], limit: int) -> dict[str, bytes]:
    """Take clients from the end of a list, with their heads, as many as go into one message."""
    taken: dict[str, bytes] = {}
    while names:
        data = heads[names[-1]].read_bytes()
        if taken and sum(map(len, taken.values())) + len(data) > limit:
            break
        taken[names.pop()] = data
    return taken


def _failed(answer: Record | Fault | None, names: list[str], timeout: float) -> dict[str, str]:
    if answer is None:
        return dict.fromkeys(names, f"no answer within {timeout:g} s")
    if isinstance(answer, Fault):
        return dict.fromkeys(names, answer.reason)
    try:
        failed = Answer.from_record(answer, limit=0).failed
    except AnswerError as error:
        return dict.fromkeys(names, str(error))
    return {name: f"{failed[name]} (at the client)" for name in names if name in failed}
