"""What a SuperNode does in a secure sum: each of its clients is a party of its own.

A client's half of a sum (`fedcof.privacy.secure.client.Client`) lives for five questions, and
Flower may answer each in a new process. Nothing of it is stored but a seed and the messages that it
has answered: its half is made again from these, since all that it draws is drawn from the seed.
They are kept in the state of the SuperNode, that is in its memory, and wiped with the last answer.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcof.errors import SummaryError
from fedcof.federation.ownership import read_roster
from fedcof.federation.records import Answer, Job, Record, code_of
from fedcof.federation.secure.addends import addends
from fedcof.federation.secure.once import forget_old, take_once
from fedcof.federation.secure.plan import LEAST
from fedcof.federation.secure.signing import KnownSites, SiteKey, Unsigned
from fedcof.federation.secure.statistic import MASK, OPEN, PREPARE, Statistic, agreement
from fedcof.federation.sources import Clients, Site
from fedcof.privacy.secure.client import Client
from fedcof.privacy.secure.ring import Vector
from fedcof.privacy.secure.terms import Terms

_KEPT = "fedcof-secure"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Memory:
    """What a client keeps between the questions of one sum."""

    sum_id: str
    seed: bytes
    answered: tuple[bytes, ...] = ()

    def to_bytes(self) -> bytes:
        """Return it as Flower's state keeps it."""
        answered = [message.hex() for message in self.answered]
        return json.dumps([self.sum_id, self.seed.hex(), answered]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Memory:
        """Read what `to_bytes` wrote."""
        sum_id, seed, answered = json.loads(data)
        return cls(sum_id, bytes.fromhex(seed), tuple(map(bytes.fromhex, answered)))

    @property
    def token(self) -> str:
        """What the seed is known by in files; it tells nothing of it."""
        return hashlib.sha256(b"token" + self.seed).hexdigest()[:32]

    def random(self) -> Callable[[int], bytes]:
        """Return what draws bytes, the same after every start."""
        drawn = 0

        def draw(size: int) -> bytes:
            nonlocal drawn
            drawn += 1
            return hashlib.shake_256(self.seed + drawn.to_bytes(8, "big")).digest(size)

        return draw


def answer(job: Job, site: Site, question: Record, context: Any) -> Answer:
    """Take one step of a sum with the clients of this SuperNode that are asked.

    Parameters
    ----------
    job : Job
    site : Site
        The SuperNode's clients, and what may leave it.
    question : Record
        The statistic, the step, and a message for each client, as the server asks it.
    context : flwr.app.Context
        The SuperNode's; its state keeps what the clients must remember.

    Returns
    -------
    Answer
        What each client answers, or the code of its failure.
    """
    from flwr.app import ConfigRecord  # slow to import, and only needed here

    statistic, exchange = Statistic.from_record(question), int(question["exchange"])
    messages = Answer.from_record(question, limit=len(question["blob"])).summaries
    kept: ConfigRecord = context.state.config_records.setdefault(_KEPT, ConfigRecord())
    clients = site.clients
    names = set(clients)  # of a mapping that reads on demand, `in` would read the client's data
    done: dict[str, bytes] = {}
    failed: dict[str, str] = {}
    for client_id, message in messages.items():
        try:
            if client_id not in names:
                raise SummaryError("unknown-client", f"{client_id!r} is not here")
            site.policy.check(
                job.sender, backbone=job.backbone, summed=True, guarantee=statistic.guarantee
            )
            site.check_not_dry()
            guarded = replace(job, sender=site.policy.guarded(job.sender))
            if exchange == PREPARE:
                site.policy.check_left(client_id, statistic.guarantee)
                done[client_id] = _prepared(guarded, statistic, clients, client_id)
                continue
            memory = _recalled(kept, client_id, str(question["sum"]), exchange)
            take_once(memory.token, str(exchange))
            vector = _vector(guarded, statistic, clients, client_id, exchange)
            if exchange == MASK:
                release = f"secure sum by {job.sender.method.name}"
                site.policy.spend(client_id, statistic.guarantee, release=release)
            agreed = agreement(question, statistic, memory.sum_id, question["members"])
            party = Client(
                client_id=client_id,
                layout=statistic.layout(job.sender.method),
                vector=vector,
                terms=_demands(statistic, context.node_config),
                random=memory.random(),
                **_keys(agreed, context.node_config),
            )
            for earlier in memory.answered:
                party.answer(earlier)
            done[client_id] = party.answer(message)
            kept.pop(client_id, None)
            if exchange < OPEN:
                after = Memory(memory.sum_id, memory.seed, (*memory.answered, message))
                kept[client_id] = after.to_bytes()
        except BaseException as error:  # one client's fault is not that of the others
            _log.error("client %r: %s", client_id, code_of(error), exc_info=error)
            failed[client_id] = code_of(error)
    return Answer(done, failed)


def _prepared(job: Job, statistic: Statistic, clients: Clients, client_id: str) -> bytes:
    """Return the length of a client's features and what made them, once they can be summed."""
    _, dim, made_by = addends(job, statistic, clients, client_id)
    return json.dumps({"dim": dim, "origin": dict(made_by)}, sort_keys=True).encode()


def _recalled(kept: Mapping[str, Any], client_id: str, sum_id: str, exchange: int) -> Memory:
    """Return what a client remembers of a sum; a sum that begins has a new seed.

    Raises
    ------
    SummaryError
        If the question is not the next one of the sum that the client takes part in.
    """
    if exchange == 0:
        forget_old()
        return Memory(sum_id, secrets.token_bytes(32))
    memory = Memory.from_bytes(kept[client_id]) if client_id in kept else None
    if memory is None or (memory.sum_id, len(memory.answered)) != (sum_id, exchange):
        raise SummaryError(
            "out-of-turn",
            f"asked for step {exchange} of a sum that this client is not in, or not there yet",
        )
    return memory


def _vector(
    job: Job, statistic: Statistic, clients: Clients, client_id: str, exchange: int
) -> Vector:
    """Return a client's numbers where they are masked, and zeros in their place elsewhere."""
    if exchange != MASK:
        return np.zeros(statistic.layout(job.sender.method).size, np.uint64)
    vector, dim, _ = addends(job, statistic, clients, client_id)
    if dim != statistic.dim:
        raise SummaryError("dim", f"features of length {dim}, the sum is of {statistic.dim}")
    return vector


def _keys(agreed: bytes, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return who signs for a client, and whose signatures it takes."""
    path, known = config.get("signing-key"), config.get("known-sites")
    owners = read_roster(Path(str(known)), "known-sites") if known else {}
    return {
        "identity": SiteKey(agreed, Path(str(path))) if path else Unsigned(agreed),
        "directory": KnownSites(agreed, owners, unsigned=not known),
    }


def _demands(statistic: Statistic, config: Mapping[str, Any]) -> Terms:
    """Return the least that a client asks of a sum, such as enough clients for its noise."""
    colluders = float(config.get("colluders", 0.0))
    least = max(LEAST, statistic.privacy.honest if statistic.privacy else 0)
    return Terms(colluders=colluders, least=least)
