"""Passes for methods that need the covariance of every class: some classes at a time.

The matrices of all classes are never summed together: every pass reads all summaries and sums those
of a few classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from fedcof.methods.passes import Census, ClassTotals, Pass
from fedcof.summaries import ClassCovariances
from fedcof.summaries.class_moments import pooled_moments

AT_A_TIME = 16
"""Classes whose matrices are summed in one pass."""


def moments_in_turn(
    taken: Callable[[ClassCovariances], Any], then: Callable[[list[Any]], object]
) -> Pass[Any]:
    """Return the first of the passes, which counts the classes.

    Parameters
    ----------
    taken : callable
        Returns what is kept of the moments of some classes. It is called in the order of the
        classes.
    then : callable
        Returns what `Method.fit` takes, from all that was kept.
    """
    return Census(partial(_all_in_turn, taken, then))


def _all_in_turn(
    taken: Callable[[ClassCovariances], Any],
    then: Callable[[list[Any]], object],
    totals: ClassTotals,
) -> Pass[Any]:
    return MomentsPass(totals.classes, [], taken, then)


class MomentsPass(Pass[ClassCovariances | None]):
    """The moments of the first of some classes; the others are for the passes that follow.

    Parameters
    ----------
    classes : ndarray, shape (classes,)
    kept : list
        What is kept of the classes before.
    taken, then : callable
        As in `moments_in_turn`.
    """

    def __init__(
        self,
        classes: NDArray[Any],
        kept: list[Any],
        taken: Callable[[ClassCovariances], Any],
        then: Callable[[list[Any]], object],
    ) -> None:
        self.classes, self.others = classes[:AT_A_TIME], classes[AT_A_TIME:]
        self.kept, self.taken, self.then = kept, taken, then

    def __getstate__(self) -> dict[str, Any]:
        return {"classes": self.classes}  # what is kept stays where the passes are finished

    def partial(self, parts: Sequence[ClassCovariances]) -> ClassCovariances | None:
        """Pool the clients' moments of these classes; None if none of them is there."""
        return pooled_moments(parts, self.classes)

    def add(
        self, first: ClassCovariances | None, second: ClassCovariances | None
    ) -> ClassCovariances | None:
        """Pool them once more."""
        if first is None or second is None:
            return second if first is None else first
        return pooled_moments([first, second], self.classes)

    def finish(self, total: ClassCovariances | None) -> object:
        """Return the pass for the other classes; of the last ones, what the head is made of."""
        assert total is not None
        kept = [*self.kept, self.taken(total)]
        if len(self.others):
            return MomentsPass(self.others, kept, self.taken, self.then)
        return self.then(kept)
