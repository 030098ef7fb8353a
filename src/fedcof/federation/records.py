"""What server and SuperNodes say to each other: flat records, one a message.

A server asks a SuperNode ``describe``, for its clients and what is known of them, and
``summarize``, for their summaries; where ``describe`` allows some bytes, summaries go along. An
answer holds at most the bytes that were allowed; clients that it does not mention are asked for
again. Nothing of an exception but a code and the name of its class goes into an answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from fedcof import __version__
from fedcof.client import Sender
from fedcof.data.reading import USUAL_NAMES, Reading
from fedcof.errors import AnswerError, SecureError, SummaryError
from fedcof.federation.skew import version_fault

DESCRIBE = "describe"
SUMMARIZE = "summarize"

MAX_CLIENT_ID = 200
"""Characters of a client's id."""

Record = Mapping[str, Any]

_VERSION = re.compile(r"[A-Za-z0-9.+-]{1,40}")
_CODE = re.compile(r"[A-Za-z0-9-]{1,40}(:[A-Za-z_][A-Za-z0-9_]{0,79})?")


@dataclass(frozen=True)
class Job:
    """What the clients are to do, the same for all.

    Parameters
    ----------
    sender : Sender
        How a client makes what it sends.
    backbone : str, default ""
        The name of the backbone that makes features of images; empty where clients hold features.
    data : str, default ""
        Where a SuperNode finds its clients if its own configuration does not say; see `sources`.
    reading : Reading
        What the columns of the data are called, where its own configuration does not say it.
    origin : mapping of str to str, default {}
        What made the features that the clients hold, where the server knows it: in a simulation.
    """

    sender: Sender
    backbone: str = ""
    data: str = ""
    reading: Reading = USUAL_NAMES
    origin: Mapping[str, str] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        """Return the job as it goes over the wire."""
        return {
            "sending": json.dumps(self.sender.settings()),
            "backbone": self.backbone,
            "data": self.data,
            "reading": json.dumps(asdict(self.reading)),
            "origin": json.dumps(dict(self.origin)),
            "version": __version__,
        }

    @classmethod
    def from_record(cls, record: Record) -> Job:
        """Read what `to_record` wrote."""
        return cls(
            sender=Sender.from_settings(json.loads(record["sending"])),
            backbone=str(record["backbone"]),
            data=str(record["data"]),
            reading=Reading(**json.loads(record["reading"])),
            origin=json.loads(record["origin"]),
        )


@dataclass(frozen=True)
class Roster:
    """What a SuperNode announces: its clients, and who it is.

    Parameters
    ----------
    client_ids : sequence of str
    samples, classes : mapping of str to int, default {}
        How many samples and classes each client has, where it is known without reading its data and
        its site lets it be known.
    version : str, default ""
        The site's version of fedcof.
    clock : float, default 0
        The site's time when it answered, in seconds since 1970.
    """

    client_ids: Sequence[str]
    samples: Mapping[str, int] = field(default_factory=dict)
    classes: Mapping[str, int] = field(default_factory=dict)
    version: str = ""
    clock: float = 0.0

    def to_record(self) -> dict[str, Any]:
        """Return the roster as it goes over the wire; a number that is not known is 0."""
        return {
            "clients": list(self.client_ids),
            "samples": [self.samples.get(client_id, 0) for client_id in self.client_ids],
            "classes": [self.classes.get(client_id, 0) for client_id in self.client_ids],
            "version": self.version,
            "clock": self.clock,
        }

    @classmethod
    def from_record(cls, record: Record, *, limit: int) -> Roster:
        """Read a roster of at most `limit` clients.

        Of another version of fedcof, only the clients need be there.

        Raises
        ------
        AnswerError
            If it is something else, or the SuperNode could not read its data.
        """
        _raise_fault(record)
        client_ids = _strings(record, "clients")
        if len(client_ids) > limit:
            raise AnswerError(f"names {len(client_ids)} clients; at most {limit} are allowed")
        version, clock = record.get("version", ""), record.get("clock", 0.0)
        if not isinstance(version, str) or not (version == "" or _VERSION.fullmatch(version)):
            raise AnswerError("has a version that is none")
        if not isinstance(clock, int | float) or not math.isfinite(clock):
            raise AnswerError("has a clock that is no number")
        return cls(
            tuple(sorted(set(client_ids))),
            samples=_known(record, "samples", client_ids),
            classes=_known(record, "classes", client_ids),
            version=version,
            clock=float(clock),
        )


@dataclass(frozen=True)
class Answer:
    """Summaries of a SuperNode's clients, and the codes of those that failed.

    Parameters
    ----------
    summaries : mapping of str to bytes, default {}
    failed : mapping of str to str, default {}
    withheld : mapping of str to (int, int), default {}
        How many classes and samples of a client are in no summary, where its site lets it be known.
    """

    summaries: Mapping[str, bytes] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    withheld: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def client_ids(self) -> frozenset[str]:
        """The clients that it mentions."""
        return frozenset(self.summaries) | frozenset(self.failed)

    def to_record(self) -> dict[str, Any]:
        """Return the answer as it goes over the wire, all summaries as one string of bytes."""
        numbers = [number for name in self.summaries for number in self.withheld.get(name, (0, 0))]
        return {
            "answered": list(self.summaries),
            "sizes": [len(data) for data in self.summaries.values()],
            "blob": b"".join(self.summaries.values()),
            "failed": list(self.failed),
            "codes": list(self.failed.values()),
            **({"withheld": numbers} if any(numbers) else {}),
        }

    @classmethod
    def from_record(cls, record: Record, *, limit: int) -> Answer:
        """Read an answer of at most `limit` bytes of summaries.

        Raises
        ------
        AnswerError
            If it is something else, or the SuperNode could not read its data.
        """
        _raise_fault(record)
        client_ids, failed = _strings(record, "answered"), _strings(record, "failed")
        sizes, codes, blob = (record.get(name) for name in ("sizes", "codes", "blob"))
        if not isinstance(blob, bytes) or not isinstance(sizes, list) or len(blob) > limit:
            raise AnswerError(f"has no summaries of at most {limit} bytes")
        if (
            not all(type(size) is int and size > 0 for size in sizes)
            or len(sizes) != len(client_ids)
            or sum(sizes) != len(blob)
        ):
            raise AnswerError("has summaries whose sizes do not fit")
        if not isinstance(codes, list) or len(codes) != len(failed):
            raise AnswerError("has clients that failed without a code")
        withheld = record.get("withheld", [0, 0] * len(client_ids))
        if (
            not isinstance(withheld, list)
            or len(withheld) != 2 * len(client_ids)
            or not all(type(number) is int and number >= 0 for number in withheld)
        ):
            raise AnswerError("has no two numbers of what every client withholds")
        stops = accumulate(sizes, initial=0)
        pairs = zip(client_ids, withheld[::2], withheld[1::2], strict=True)
        return cls(
            summaries={
                client_id: blob[start:stop]
                for client_id, (start, stop) in zip(client_ids, pairwise(stops), strict=True)
            },
            failed={
                client_id: checked_code(code) for client_id, code in zip(failed, codes, strict=True)
            },
            withheld={
                name: (classes, samples) for name, classes, samples in pairs if classes or samples
            },
        )


def fault_record(error: BaseException) -> dict[str, Any]:
    """Return the answer of a SuperNode that cannot do at all what it is asked."""
    return {"fault": code_of(error), "version": __version__}


def code_of(error: BaseException) -> str:
    """Return what the server may know of an error: a code and the name of its class, no text."""
    code = error.code if isinstance(error, SummaryError | SecureError) else "raised"
    return checked_code(f"{code}:{type(error).__name__}")


def checked_code(code: Any) -> str:
    """Return a code, or "unclear" where it could be anything else."""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else "unclear"


def check_client_id(client_id: Any) -> str:
    """Return a client's id.

    Raises
    ------
    AnswerError
        If it is empty, too long or not printable.
    """
    if not isinstance(client_id, str) or not 0 < len(client_id) <= MAX_CLIENT_ID:
        raise AnswerError(f"has a client id that is not a string of 1 to {MAX_CLIENT_ID}")
    if not client_id.isprintable():
        raise AnswerError("has a client id that is not printable")
    return client_id


def _strings(record: Record, name: str) -> list[str]:
    values = record.get(name)
    if not isinstance(values, list):
        raise AnswerError(f"has no list of {name}")
    return [check_client_id(value) for value in values]


def _known(record: Record, name: str, client_ids: Sequence[str]) -> dict[str, int]:
    """Return a number for each client of which it is known, that is not 0."""
    values = record.get(name, [0] * len(client_ids))
    if not isinstance(values, list) or len(values) != len(client_ids):
        raise AnswerError(f"has no number of {name} for every client")
    if not all(type(value) is int and value >= 0 for value in values):
        raise AnswerError(f"has {name} that are no numbers of at least 0")
    return {client_id: n for client_id, n in zip(client_ids, values, strict=True) if n}


def _raise_fault(record: Record) -> None:
    if "fault" in record:
        text = f"cannot read its data: {checked_code(record['fault'])}"
        version = record.get("version")
        if isinstance(version, str) and _VERSION.fullmatch(version):
            text += f"; {fault}" if (fault := version_fault(version)) else ""
        raise AnswerError(text)
