"""What of a user's data does not count, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LeftOut:
    """Rows and files that were left out, by the reason.

    Parameters
    ----------
    places : mapping of str to tuple of str
        Where they are (a file, or a file and a row), by the reason in words.

    Examples
    --------
    >>> found = LeftOut({"not a picture": ("a/x.pdf", "a/y.txt")}) + LeftOut({"empty": ("b/",)})
    >>> found.count
    3
    >>> found.lines(limit=1)
    ['2 left out, not a picture: a/x.pdf and 1 more', '1 left out, empty: b/']
    """

    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many were left out."""
        return sum(map(len, self.places.values()))

    def lines(self, limit: int = 3) -> list[str]:
        """Return a line for people for each reason, which names at most `limit` places."""
        return [
            f"{len(places):,} left out, {reason}: {_some(places, limit)}"
            for reason, places in self.places.items()
        ]

    def __add__(self, other: LeftOut) -> LeftOut:
        reasons = dict.fromkeys([*self.places, *other.places])
        return LeftOut(
            {
                reason: (*self.places.get(reason, ()), *other.places.get(reason, ()))
                for reason in reasons
            }
        )


def _some(places: tuple[str, ...], limit: int) -> str:
    more = len(places) - limit
    return ", ".join(places[:limit]) + (f" and {more:,} more" if more > 0 else "")
