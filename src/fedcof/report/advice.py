"""What a comparison of methods says, in words: every claim follows from a number beside it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import NamedTuple

from fedcof.experiments.comparison import Facts
from fedcof.report.tables import Line, Table

_SHIFTED = 1.5
"""A ratio of variances above which clients are called different."""
_FAR = 30.0
"""A factor between the variance of a feature and the shrinkage above which others are proposed."""


class Difference(NamedTuple):
    """What one method reaches above another, in points of accuracy, paired by seed."""

    mean: float
    deviation: float | None
    seeds: int

    @classmethod
    def of(cls, line: Line, other: Line) -> Difference:
        """Compare two lines on the seeds that both have."""
        first, second = (
            {row.seed: 100 * row.measured["accuracy"] for row in each.rows}
            for each in (line, other)
        )
        pairs = [first[seed] - second[seed] for seed in first.keys() & second.keys()]
        deviation = statistics.stdev(pairs) if len(pairs) > 1 else None
        return cls(statistics.fmean(pairs), deviation, len(pairs))

    @property
    def is_noise(self) -> bool:
        """Whether the mean is within two of its standard errors of zero."""
        if self.deviation is None:
            return self.mean == 0
        return abs(self.mean) <= 2 * self.deviation / math.sqrt(self.seeds)

    def __str__(self) -> str:
        deviation = "" if self.deviation is None else f" ± {self.deviation:.1f}"
        place = "below" if self.mean < 0 else "above"
        return f"{abs(self.mean):.1f}{deviation} points {place}"


def advice(facts: Facts, table: Table) -> list[str]:
    """Return sentences on the data, on FedCOF against Fed3R, and which method to take.

    Parameters
    ----------
    facts : Facts
    table : Table
        Of a comparison, with a line a method.
    """
    return [*_on_means(facts), *_on_shift(facts), *_on_shrinkage(facts), *_on_methods(table)]


def _on_means(facts: Facts) -> Iterator[str]:
    low, mean, high = facts.means_per_class
    yield (
        f"Means: {facts.clients:,} clients send {mean:.1f} means a class on average ({low:.0f} to "
        f"{high:.0f})"
        + (
            f"; {facts.single:,} of {facts.classes:,} classes have one mean only, which tells "
            "nothing of their covariance."
            if facts.single
            else ", and every class has at least two."
        )
    )
    if facts.rank < facts.dim:
        yield (
            f"The means beyond the first of each class are {facts.rank:,}, fewer than the "
            f"{facts.dim:,} dimensions: FedCOF's scatter has at most that rank and the shrinkage "
            "fills the rest. Several means a client raise it (--means-per-class); Fed3R needs none."
        )
    else:
        yield (
            f"The means beyond the first of each class are {facts.rank:,}, enough for the "
            f"{facts.dim:,} dimensions of FedCOF's scatter."
        )
    if facts.untested:
        yield (
            f"Classes with one sample, which are trained on and never tested: {len(facts.untested)}"
            f" ({', '.join(facts.untested[:5])}{', ...' if len(facts.untested) > 5 else ''})."
        )


def _on_shift(facts: Facts) -> Iterator[str]:
    if facts.shift is None:
        yield (
            "Shift between clients: it cannot be measured, for no class is at two clients or no "
            "client has two samples of a class."
        )
        return
    yield (
        f"Shift between clients: their means of a class vary {facts.shift:.1f} times as much as "
        "chance would make them (mean squares; 1: clients are alike)"
        + (
            ". FedCOF takes the shift for variance within the class; Fed3R assumes nothing of it."
            if facts.shift > _SHIFTED
            else ", near what FedCOF assumes."
        )
    )


def _on_shrinkage(facts: Facts) -> Iterator[str]:
    if not facts.variance or 1 / _FAR < facts.variance < _FAR:
        return
    yield (
        f"Shrinkage: the median variance of a feature within a class is {facts.variance:.2g}, and "
        "the shrinkage is in its unit, so 1 is "
        + (f"{1 / facts.variance:,.0f} times as much" if facts.variance < 1 else "next to nothing")
        + f"; try --shrinkage {0.1 * facts.variance:.1g}, or scale the features."
    )


def _on_methods(table: Table) -> Iterator[str]:
    lines = {line.shown["method"]: line for line in table.lines}
    ours = [line for line in table.lines if line.setting["method"] == "fedcof"]
    ridge = next((line for line in table.lines if line.setting["method"] == "fed3r"), None)
    if ours and ridge:
        fedcof = max(ours, key=_accuracy)
        difference = Difference.of(fedcof, ridge)
        yield (
            f"FedCOF against Fed3R: {fedcof.shown['method']} is {difference} Fed3R"
            f"{' (within the noise of the seeds)' if difference.is_noise else ''}. It sends "
            f"{as_bytes(_sent(fedcof))} on the wire, Fed3R {as_bytes(_sent(ridge))}: "
            f"{_sent(ridge) / _sent(fedcof):,.1f} times as much."
        )
    best = max(lines, key=lambda name: _accuracy(lines[name]))
    near = [name for name in lines if Difference.of(lines[name], lines[best]).is_noise]
    chosen = min(near, key=lambda name: (_sent(lines[name]), -_accuracy(lines[name])))
    seeds = len(lines[best].rows)
    reason = (
        "the most accurate, and none that is as good within the noise sends less"
        if chosen == best
        else f"{Difference.of(lines[chosen], lines[best])} the best, {best} (within the noise), "
        "and of all such methods it sends the least: "
        f"{as_bytes(_sent(lines[chosen]))} against "
        f"{as_bytes(_sent(lines[best]))}"
    )
    yield (
        f"Recommended: {chosen}, {_accuracy(lines[chosen]):.1f} % over {seeds} "
        f"{'seed' if seeds == 1 else 'seeds'}: {reason}."
    )
    if seeds == 1:
        yield "One seed does not say how much of a difference is chance; give --seeds 5."


def _accuracy(line: Line) -> float:
    return line.values["accuracy"].mean


def _sent(line: Line) -> float:
    return statistics.fmean(row.measured["wire_bytes"] for row in line.rows)


def as_bytes(number: float) -> str:
    """Return a number of bytes for people.

    Examples
    --------
    >>> as_bytes(950), as_bytes(26_400), as_bytes(3.1e6)
    ('950 B', '26.4 kB', '3.1 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:,.0f} B"
