"""Heads of sites on their way home: the server sends every client its own, the site keeps it.

The server asks a SuperNode to ``keep`` heads, framed as an `Answer` is; the answer names those that
were not kept, with a code. A site keeps heads where its node configuration says ``heads="FOLDER"``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcof.federation.asking import Grid
from fedcof.federation.calling import ask_each
from fedcof.federation.plan import Plan
from fedcof.federation.records import Answer, Job, Record, code_of, fault_record
from fedcof.federation.sources import load_site
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
        names = file_names(sorted(load_site(job.data, context, job.reading).clients), SUFFIX)
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
    **clock: Any,
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
    **clock
        As the keywords of `ask_each`.
    """
    missed = {name: "its SuperNode is offline" for name in heads if name not in nodes}
    asked = ask_each(
        grid,
        KEEP,
        job.to_record(),
        lambda name: heads[name].read_bytes(),
        {name: nodes[name] for name in heads if name in nodes},
        timeout=plan.timeout,
        max_message=plan.max_message,
        **clock,
    )
    return missed | asked.failed
