"""The summaries that arrived, in memory: what is odd about them, and what is set aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedcof.commands.shared import note
from fedcof.commands.withdraw import withdrawn
from fedcof.errors import SummaryError

if TYPE_CHECKING:
    from fedcof.influence import Influence
    from fedcof.methods import Method
    from fedcof.scale.dataset import DataSet
    from fedcof.screening import OddSite
    from fedcof.summaries import Summary


STRICT = "no head is made, as --strict asks: something would be set aside"


@dataclass
class Arrived:
    """The summaries that arrived, and what is not taken.

    Attributes
    ----------
    summaries : dict of str to Summary
        Those that a head may be made of, by where they stand.
    set_aside : dict of str to str
        The others, with the reason.
    odd : list of OddSite
        What is odd about those that are taken.
    influence : list of Influence
        Who of those that are taken moves the head most, where it was asked.
    """

    summaries: dict[str, Summary] = field(default_factory=dict)
    set_aside: dict[str, str] = field(default_factory=dict)
    odd: list[OddSite] = field(default_factory=list)
    influence: list[Influence] = field(default_factory=list)

    def settle(
        self, method: Method[Any], accepted: Sequence[str], most: float, *, strict: bool
    ) -> None:
        """Set aside what is not taken, and say so.

        Raises
        ------
        ValueError
            If nothing is left, no majority agrees, or something is set aside under `strict`.
        """
        self.screen(accepted)
        if most:
            self.weigh(method, most, accepted)
        for line in self.lines():
            note(line)
        if not self.summaries:
            raise ValueError("no head is made: no file holds a summary that this method takes")
        if strict and self.set_aside:
            raise ValueError(STRICT)

    def screen(self, accepted: Sequence[str]) -> None:
        """Set aside what does not fit the others, unless it is accepted.

        Raises
        ------
        ValueError
            If no client has an accepted name, or no majority agrees on what is usual.
        """
        from fedcof.screening import Site, misfits, screen

        known = {name for summary in self.summaries.values() for name in summary.client_ids}
        if unknown := sorted(set(accepted) - known):
            names = ", ".join(map(repr, sorted(known)[:10]))
            raise ValueError(f"--accept {unknown[0]!r}: there is no such client; there are {names}")
        misfit = misfits({place: Site.of(kept) for place, kept in self.summaries.items()})
        if 2 * len(misfit) >= len(self.summaries) > 0:
            raise ValueError(
                f"no head is made: {_reasons(misfit)}. No majority of the files goes together, so "
                "which of them are wrong cannot be told: give only those that do"
            )
        self._set_aside(misfit)
        refused: dict[str, str] = {}
        paths, unsure = list(self.summaries), False
        for site, odd in screen(self.summaries.values()):
            if odd.refused and not set(accepted) & set(odd.client_ids):
                path = paths[site]
                refused[path] = f"{refused[path]}; {odd.reason}" if path in refused else str(odd)
                unsure |= odd.unsure
            else:
                self.odd.append(odd)
        if unsure:
            reasons = "; ".join(refused.values())
            raise ValueError(
                f"no head is made: {reasons}. Give --accept CLIENT to take one as it is"
            )
        self._set_aside(refused, "; --accept takes it as it is")

    def weigh(self, method: Method[Any], most: float, accepted: Sequence[str]) -> None:
        """Set aside who moves the weights by more than `most`, unless it is accepted."""
        from fedcof.influence import influences, too_influential

        paths = {summary.client_ids: path for path, summary in self.summaries.items()}
        self._set_aside(
            {
                paths[one.client_ids]: f"{one}, more than --max-influence {most:g}"
                for one in too_influential(method, self.summaries.values(), most, accepted)
            },
            "; --accept takes it as it is",
        )
        self.influence = influences(method, self.summaries.values())

    def _set_aside(self, reasons: dict[str, str], remedy: str = "") -> None:
        for path, reason in reasons.items():
            del self.summaries[path]
            self.set_aside[path] = reason + remedy

    def lines(self) -> list[str]:
        """Return what was set aside and what is odd, as lines for people."""
        aside = [f"set aside {told(place, reason)}" for place, reason in self.set_aside.items()]
        return [*aside, *(f"warning: {odd}" for odd in self.odd)]


def told(place: str, reason: str) -> str:
    """Return where something stands and what is wrong with it; the client once."""
    _, _, client = place.rpartition(", client ")
    return f"{place}: {reason.removeprefix(f'client {client}: ')}"


def _reasons(of_files: Mapping[str, str]) -> str:
    return "; ".join(told(place, reason) for place, reason in of_files.items())


def collect(data: DataSet) -> Arrived:
    """Read all summaries of a data set; what cannot be taken is set aside.

    Raises
    ------
    SummaryError
        If a client is there twice.
    """
    from fedcof.scale.dataset import RowGroup

    arrived = Arrived(set_aside={aside.place: aside.reason for aside in data.set_aside})
    gone = set().union(*map(withdrawn, data.folders))
    for file in data.files:
        for piece in file.pieces:
            reads = list(piece.read(counts_alone=False, left_out=frozenset()))
            single = isinstance(piece, RowGroup)
            for aside in (aside for read in reads for aside in read.set_aside):
                name = f", client {aside.client_id!r}" if aside.client_id else ""
                arrived.set_aside[f"{aside.place}{name}"] = aside.reason
            parts = [part for read in reads for part in read.parts]
            for part in (own for one in parts for own in (one.apart() if single else [one])):
                place = piece.place
                if single:
                    place += f", client {part.client_ids[0]!r}"
                if leaving := gone.intersection(part.client_ids):
                    arrived.set_aside[place] = (
                        f"client {min(leaving)!r} has withdrawn: `fedcof withdraw` takes it out of "
                        "this file, with --readmit it counts again"
                    )
                else:
                    arrived.summaries[place] = part
    _check_one_file_a_client(arrived.summaries)
    return arrived


def _check_one_file_a_client(summaries: dict[str, Summary]) -> None:
    holders: dict[str, str] = {}
    for place, summary in summaries.items():
        for client_id in filter(None, summary.client_ids):
            first = holders.setdefault(client_id, place)
            if first != place:
                raise SummaryError(
                    "duplicate-client",
                    f"is in two files, {first} and {place}; a client may be counted once: leave "
                    "one out, or let the sites have different names (fedcof summarize --client-id)",
                    client_id=client_id,
                )
