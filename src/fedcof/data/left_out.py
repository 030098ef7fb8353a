"""What of a user's data does not count, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedcof.errors import first_of


@dataclass(frozen=True)
class LeftOut:
    """Rows and files that do not count, by the reason.

    Parameters
    ----------
    places : mapping of str to tuple of str
        Where those are that were left out (a file, or a file and a row), by the reason in words.
    passed_over : mapping of str to tuple of str
        Where those are that nobody asked for, by the reason: of another part of the data, or put
        there by an operating system.

    Examples
    --------
    >>> found = LeftOut({"not a picture": ("a/x.pdf", "a/y.txt")}) + LeftOut({"empty": ("b/",)})
    >>> found.count
    3
    >>> found.lines(limit=1)
    ['2 left out, not a picture: a/x.pdf and 1 more', '1 left out, empty: b/']
    >>> other = LeftOut(passed_over={"of the part test": ("test/a/z.jpg",)})
    >>> other.count, other.lines()
    (0, ['1 passed over, of the part test: test/a/z.jpg'])
    """

    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    passed_over: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many were left out; what was passed over is not among them."""
        return sum(map(len, self.places.values()))

    def lines(self, limit: int = 3) -> list[str]:
        """Return a line for people for each reason, which names at most `limit` places."""
        return [
            f"{len(places):,} {verb}, {reason}: {first_of(places, limit)}"
            for verb, by_reason in (("left out", self.places), ("passed over", self.passed_over))
            for reason, places in by_reason.items()
        ]

    def everything(self) -> list[str]:
        """Return all places, whatever the reason."""
        by_reason = (*self.places.values(), *self.passed_over.values())
        return [place for places in by_reason for place in places]

    def __add__(self, other: LeftOut) -> LeftOut:
        """Return what is in either; a place that both name for one reason counts once."""
        return LeftOut(
            _joined(self.places, other.places), _joined(self.passed_over, other.passed_over)
        )


def _joined(
    first: Mapping[str, tuple[str, ...]], second: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    reasons = dict.fromkeys([*first, *second])
    return {
        reason: tuple(dict.fromkeys((*first.get(reason, ()), *second.get(reason, ()))))
        for reason in reasons
    }
