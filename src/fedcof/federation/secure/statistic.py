"""What is summed in one phase: how a client's arrays become integers, and what all agree on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import AnswerError, CorruptBytesError
from fedcof.methods import Method
from fedcof.privacy.differential import CentralPrivacy, Neighbours, private_sums
from fedcof.privacy.policy import Guarantee
from fedcof.privacy.secure.ring import RingLayout
from fedcof.privacy.sums import Sums, sums_of
from fedcof.wire import decode, encode

SECURE = "secure"
"""The action of Flower's messages."""

PREPARE = -1
"""The question before a sum: whether a client's numbers can be summed, and how long they are."""

MASK, OPEN = 2, 4
"""Of the five exchanges of a sum, that of masked numbers, and the last."""

WHOLE = ("counts", "presence")
"""Arrays of whole numbers, which travel in as few bytes as their sums need."""

Totals = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Budget:
    """The differential privacy of a sum.

    Parameters
    ----------
    epsilon, delta : float
        Of the whole sum.
    honest : int
        So many clients are counted on to add their share of the noise and to keep it to themselves.
    neighbours : {"sample", "client"}, default "sample"
    """

    epsilon: float
    delta: float
    honest: int
    neighbours: Neighbours = "sample"


@dataclass(frozen=True, eq=False)
class Statistic:
    """What clients sum in one phase; public.

    Parameters
    ----------
    classes : tuple of int or str
        All classes that a client may have.
    dim : int
        Length of a feature as it is summed.
    radius : float
        The largest norm of a feature.
    samples : int
        The most samples of one client; of noise by client, how many it weighs at most.
    clients : int
        The most clients that are summed.
    totals : sequence of mappings
        The totals of the phases before.
    privacy : Budget, optional
        What the sum is noised for, where it is.
    """

    classes: tuple[int | str, ...]
    dim: int
    radius: float
    samples: int
    clients: int
    totals: Sequence[Totals] = ()
    privacy: Budget | None = None

    @property
    def phase(self) -> int:
        """The phase, from 0."""
        return len(self.totals)

    def sums(self, method: Method[Any]) -> Sums:
        """Return what of a method adds up."""
        of = private_sums if self.privacy else sums_of
        return of(method, np.array(self.classes), self.dim)

    def layout(self, method: Method[Any]) -> RingLayout:
        """Return the arrays of a client as one vector of integers."""
        if self.privacy:
            return self.mechanism(method).layout
        sums = self.sums(method)
        bounds = sums.bounds(self.phase, self.radius, self.samples, self.totals)
        within = {name: bound or 1.0 for name, bound in bounds.items()}  # 0 where all are zeros
        return RingLayout.of(sums.layout(self.phase), within, self.clients, integers=WHOLE)

    @property
    def guarantee(self) -> Guarantee | None:
        """What the sum promises of a client; None where it has no noise."""
        if (noise := self.privacy) is None:
            return None
        return Guarantee(noise.epsilon, noise.delta, noise.neighbours)

    def mechanism(self, method: Method[Any]) -> CentralPrivacy:
        """Return what noises the sum, a share at every client."""
        assert self.privacy is not None
        return CentralPrivacy(
            self.sums(method),
            radius=self.radius,
            samples=self.samples,
            clients=self.clients,
            **asdict(self.privacy),
        )

    def to_record(self) -> dict[str, Any]:
        """Return it as it goes over the wire."""
        return {"statistic": self.text, "totals": self._packed_totals}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Statistic:
        """Read what `to_record` wrote.

        Raises
        ------
        AnswerError
            If it is something else.
        """
        try:
            known = json.loads(record["statistic"])
            totals = [decode(data)[0] for data in record["totals"]]
            known["classes"], known["totals"] = tuple(known["classes"]), tuple(totals)
            known["privacy"] = known["privacy"] and Budget(**known["privacy"])
            return cls(**known)
        except (KeyError, TypeError, ValueError, CorruptBytesError) as error:
            raise AnswerError(f"has no statistic ({type(error).__name__})") from None

    @cached_property
    def text(self) -> str:
        """All of it as canonical JSON, the totals by their digests."""
        known = {
            "classes": self.classes,
            "dim": self.dim,
            "radius": self.radius,
            "samples": self.samples,
            "clients": self.clients,
            "privacy": self.privacy and asdict(self.privacy),
            "totals": [hashlib.sha256(data).hexdigest() for data in self._packed_totals],
        }
        return json.dumps(known, sort_keys=True)

    @cached_property
    def _packed_totals(self) -> list[bytes]:
        return [encode(arrays, {}) for arrays in self.totals]


def agreement(
    told: Mapping[str, Any], statistic: Statistic, sum_id: str, clients: Sequence[str]
) -> bytes:
    """Return all that the clients of a sum must agree on, as canonical JSON.

    Parameters
    ----------
    told : mapping
        The job as the server tells it, `Job.to_record`, among other things or alone.
    statistic : Statistic
    sum_id : str
    clients : sequence of str
    """
    job = {name: told[name] for name in ("sending", "backbone", "data", "reading", "origin")}
    agreed = {"job": job, "statistic": statistic.text, "sum": sum_id, "clients": sorted(clients)}
    return json.dumps(agreed, sort_keys=True).encode()
