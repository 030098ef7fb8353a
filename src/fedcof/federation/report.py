"""What became of every client."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedcof.federation.codes import code_in
from fedcof.files import write_atomically


@dataclass
class SumReport:
    """What became of the clients in one attempt at a sum.

    Attributes
    ----------
    number, attempt : int
        Which sum of the run it is, from 1, and which attempt.
    asked : int
        How many clients were called.
    answered : dict of str to int
        How many took each step.
    dropped : dict of str to str
        Those who dropped out, with the step and the reason.
    summed : list of str
        Over whom the sum is; empty where the attempt failed.
    failed : str
        Why there is no sum.
    wire_bytes : int
        The bytes of questions and answers.
    """

    number: int
    attempt: int
    asked: int = 0
    answered: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    summed: list[str] = field(default_factory=list)
    failed: str = ""
    wire_bytes: int = 0


@dataclass
class CollectionReport:
    """What became of every client that was asked.

    Attributes
    ----------
    rounds : int
        How many rounds this run has asked.
    asked : set of str
        The clients that were asked in this run.
    answered : set of str
        Those whose summary was let in, in this run.
    resumed : set of str
        Those whose summary was there before.
    refused : dict of str to str
        Those whose summary was not let in, or could not be made, with the reason.
    misfit : dict of str to str
        Those whose summary does not fit most others, and does not count, with the reason.
    odd : dict of str to str
        Those who count though their summary is odd beside the others, with the reason.
    withheld : dict of str to list of int
        Those whose site says that it withholds something of them: how many classes and samples.
    missing : dict of str to str
        Those who did not answer, with the reason.
    late : set of str
        Those whose answer came after its deadline; they count.
    duplicate : set of str
        Those who sent their summary again; it counts once.
    conflicting : set of str
        Those who sent another summary afterwards; the first counts.
    withdrawn : set of str
        Those who have left the federation: nothing of theirs is kept, and they are not asked.
    undelivered : dict of str to str
        Those whom their own head has not reached, with the reason, where heads of sites are made.
    shared : set of str
        Those that several SuperNodes hold. One of them is asked.
    influence : dict of str to list of float
        Those that move the head most: by how much the weights move without them, and the share of
        the others' samples that then get another label; see `fedcof.influence`.
    claimed : dict of str to str
        Those that a SuperNode of another key than their own has named, with the reason. It is not
        asked.
    nodes : dict of int to str
        SuperNodes at fault, with the last reason.
    unnamed : set of int
        Those of them that named no clients, such as where their data cannot be read.
    sums : list of SumReport
        Every attempt at a sum, where the server is told sums alone.
    wire_bytes : int
        What the summaries took on the wire, without Flower's envelope of about 0.5 kB a message.
    """

    rounds: int = 0
    asked: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    resumed: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    misfit: dict[str, str] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)
    withheld: dict[str, list[int]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    duplicate: set[str] = field(default_factory=set)
    conflicting: set[str] = field(default_factory=set)
    withdrawn: set[str] = field(default_factory=set)
    undelivered: dict[str, str] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    influence: dict[str, list[float]] = field(default_factory=dict)
    claimed: dict[str, str] = field(default_factory=dict)
    nodes: dict[int, str] = field(default_factory=dict)
    unnamed: set[int] = field(default_factory=set)
    sums: list[SumReport] = field(default_factory=list)
    wire_bytes: int = 0

    @property
    def accepted(self) -> set[str]:
        """The clients whose summaries count."""
        return (self.answered | self.resumed) - self.misfit.keys()

    def accept(self, client_id: str, *, late: bool) -> None:
        """Note a summary that counts."""
        self.answered.add(client_id)
        self.missing.pop(client_id, None)
        self.refused.pop(client_id, None)
        if late:
            self.late.add(client_id)

    def refuse(self, client_id: str, reason: str) -> None:
        """Note a client without a summary that counts."""
        self.missing.pop(client_id, None)
        self.refused[client_id] = reason

    def withdraw(self, client_ids: set[str]) -> None:
        """Note clients that have left, and nothing else of them."""
        for kept in vars(self).values():
            if isinstance(kept, set):
                kept.difference_update(client_ids)
            elif isinstance(kept, dict):
                for client_id in client_ids & kept.keys():
                    del kept[client_id]
        self.withdrawn |= client_ids

    def readmit(self, client_ids: set[str]) -> None:
        """Note clients that had left and may be asked again."""
        self.withdrawn -= client_ids

    def counts(self) -> dict[str, Any]:
        """Return how many clients are where, as fields of `Status`."""
        return {
            "rounds": self.rounds,
            "asked": len(self.asked),
            "answered": len(self.answered),
            "resumed": len(self.resumed),
            "refused": _counted(code_in(reason) for reason in self.refused.values()),
            "missing": _counted(self.missing.values()),
            "misfit": len(self.misfit),
            "odd": len(self.odd),
            "unnamed": len(self.unnamed),
            "faults": {str(node): reason for node, reason in sorted(self.nodes.items())},
            "wire_bytes": self.wire_bytes,
        }

    def __str__(self) -> str:
        """Return one line: how many asked, answered, refused, missing."""
        text = (
            f"{len(self.asked)} clients asked, {len(self.answered)} answered, "
            f"{len(self.refused) + len(self.misfit)} refused, {len(self.missing)} missing"
        )
        text += f", {len(self.resumed)} from before" if self.resumed else ""
        text += f", {len(self.withdrawn)} withdrawn" if self.withdrawn else ""
        return f"{text}, {len(self.unnamed)} SuperNodes named no clients" if self.unnamed else text

    def save(self, path: Path) -> None:
        """Write the report as JSON, the clients in the order of their ids."""
        content = json.dumps(vars(self), default=_as_json, indent=2, sort_keys=True)
        write_atomically(path, f"{content}\n".encode())

    @classmethod
    def load(cls, path: Path) -> CollectionReport:
        """Read what `save` wrote."""
        known = json.loads(path.read_text(encoding="utf-8"))
        known["sums"] = [SumReport(**one) for one in known["sums"]]
        report = cls(**known)
        for name, default in vars(cls()).items():
            setattr(report, name, type(default)(getattr(report, name)))
        report.nodes = {int(node_id): reason for node_id, reason in report.nodes.items()}
        return report


def _as_json(value: Any) -> Any:
    return vars(value) if isinstance(value, SumReport) else sorted(value)


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(Counter(names).most_common())
