"""Fed3R in as few numbers as its statistic has: the baseline that a smaller statistic must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedcof.methods.fed3r import Fed3R
from fedcof.methods.passes import Pass, SumsPass
from fedcof.summaries import Gram, Summary, merge
from fedcof.summaries.gram_factor import GramFactor


@dataclass(frozen=True)
class Fed3RLossless(Fed3R):
    """Fed3R, whose Gram matrix comes as a packed triangular factor.

    The head is Fed3R's up to rounding. A client of n samples sends ``r d - r (r - 1) / 2`` numbers
    in place of ``d^2``, with ``r = min(n, d)``: at most little more than half of them.

    Parameters
    ----------
    ridge, form, priors
        As in `Fed3R`.

    Notes
    -----
    No publication proposes it; it is what "K d^2 numbers" of Fed3R (Fani et al., 2024) come to when
    none is sent twice. A factor of a client with fewer samples than d tells its features up to a
    rotation of the samples among themselves.
    """

    name: ClassVar[str] = "fed3r-lossless"
    summary_type: ClassVar[type[Summary]] = GramFactor

    def pool(self, parts: Sequence[GramFactor]) -> Gram:  # type: ignore[override]  # another sum
        """Return the matrices of all clients."""
        return merge(parts).gram()

    def streamed(self) -> Pass[Any]:
        """Return the one pass that adds up the matrices of the factors."""
        return SumsPass(Gram, the_sum, GramFactor.gram)


def the_sum(parts: Sequence[Gram]) -> Gram:
    """Return the one of them: what a `SumsPass` finishes with."""
    return parts[0]
