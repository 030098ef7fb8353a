"""One question to each of many clients: as many in a message as go into it, and no second try.

A message to a SuperNode, and its answer, are framed as an `Answer` is: some bytes for each of its
clients. A SuperNode is asked one question at a time.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fedcof.errors import AnswerError
from fedcof.federation.asking import Fault, Grid
from fedcof.federation.records import Answer, Record

AT_CLIENT = " (at the client)"
"""Follows the code of a failure that the client itself tells."""

_DAY = 24 * 3600.0


@dataclass
class Answers:
    """What clients answered, and why others did not.

    Attributes
    ----------
    given : dict of str to bytes
        The answers by client.
    failed : dict of str to str
        The clients that could not do what they were asked, or whose SuperNode could not be asked,
        with the reason.
    faults : dict of int to list of str
        SuperNodes that gave no answer in time or one that breaks the rules, with the clients of
        that question.
    wire_bytes : int
        The bytes of questions and answers, without Flower's envelope.
    """

    given: dict[str, bytes] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    faults: dict[int, list[str]] = field(default_factory=dict)
    wire_bytes: int = 0


def ask_each(
    grid: Grid,
    action: str,
    record: Record,
    content: Callable[[str], bytes],
    nodes: Mapping[str, int],
    *,
    timeout: float,
    max_message: int,
    answer_size: int = 0,
    at_once: Mapping[int, int] | None = None,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    pause: float = 1.0,
) -> Answers:
    """Ask every client once; return when all have answered or their time is up.

    Parameters
    ----------
    grid : Grid
    action : str
        What the SuperNodes are asked to do.
    record : Record
        What goes to all of them.
    content : callable
        Returns what goes to one client; it is called when its message is made.
    nodes : mapping of str to int
        The SuperNode of every client to ask.
    timeout : float
        Seconds to wait for an answer.
    max_message : int
        Bytes for clients in a question and in its answer; one client always goes.
    answer_size : int, default 0
        Bytes that one client answers at most.
    at_once : mapping of int to int, optional
        How many clients a question to a SuperNode may name, where not as many as go into it.
    now, sleep, pause
        As those of `Collector`.
    """
    found = Answers()
    most = at_once or {}
    waiting: defaultdict[int, list[str]] = defaultdict(list)
    for name in sorted(nodes, reverse=True):
        waiting[nodes[name]].append(name)
    open_questions: dict[int, tuple[str, list[str], float]] = {}
    while waiting or open_questions:
        for node_id in waiting.keys() - open_questions.keys():
            room = most.get(node_id, len(waiting[node_id]))
            sent = _next(content, waiting[node_id], room, max_message, answer_size)
            if not waiting[node_id]:
                del waiting[node_id]
            framed = Answer(sent).to_record()
            question_id = grid.ask(
                node_id, action, {**record, **framed, "limit": max_message}, max(_DAY, timeout)
            )
            if question_id is None:
                found.failed |= dict.fromkeys(sent, "the question could not be sent")
                found.faults[node_id] = list(sent)
            else:
                found.wire_bytes += sum(map(len, sent.values()))
                open_questions[node_id] = question_id, list(sent), now() + timeout
        arrived = dict(grid.answers([question_id for question_id, *_ in open_questions.values()]))
        for node_id, (question_id, names, deadline) in list(open_questions.items()):
            answer = arrived.get(question_id)
            if answer is None:
                if now() < deadline:
                    continue
                answer = Fault(f"no answer within {timeout:g} s")
            del open_questions[node_id]
            if isinstance(answer, Fault) and answer.blameless:
                waiting[node_id] += names
                continue
            _take(found, node_id, answer, names, max(max_message, answer_size))
        if open_questions:
            sleep(pause)
    return found


def _next(
    content: Callable[[str], bytes], names: list[str], room: int, limit: int, answer_size: int
) -> dict[str, bytes]:
    """Take clients from the end of a list, with what goes to them, as many as fit a message."""
    taken: dict[str, bytes] = {}
    while names and len(taken) < room:
        data = content(names[-1])
        size = max(sum(map(len, taken.values())) + len(data), (len(taken) + 1) * answer_size)
        if taken and size > limit:
            break
        taken[names.pop()] = data
    return taken


def _take(
    found: Answers, node_id: int, answer: Record | Fault, names: list[str], limit: int
) -> None:
    """Note what a SuperNode answered for the clients that it was asked for, and for no others."""
    if not isinstance(answer, Fault):
        try:
            read = Answer.from_record(answer, limit=limit)
        except AnswerError as error:
            answer = Fault(str(error))
    if isinstance(answer, Fault):
        found.failed |= dict.fromkeys(names, answer.reason)
        found.faults[node_id] = names
        return
    found.wire_bytes += sum(map(len, read.summaries.values()))
    for name in names:
        if name in read.failed:
            found.failed[name] = f"{read.failed[name]}{AT_CLIENT}"
        elif name in read.summaries:
            found.given[name] = read.summaries[name]
