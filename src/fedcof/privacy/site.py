"""What a site lets out of its own accord: no statistic of a few samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedcof.client import Step
from fedcof.errors import SummaryError
from fedcof.labels import as_labels
from fedcof.settings import setting
from fedcof.summaries import Summary

OTHER_TEXT = "other"
OTHER_INTEGER = -1
"""What small classes are merged into where nothing else is said."""


@dataclass(frozen=True)
class MinSamples(Step):
    """No statistic of fewer samples of a class than `min_samples` leaves the client.

    The samples of smaller classes are left out before they are summarized, so they are in nothing
    that is sent, be it a mean, a Gram matrix or a sketch; or they are summarized as one class, and
    left out where all of them are fewer. Where a method sends several means or components of a
    class, those of fewer samples are joined.
    """

    name: ClassVar[str] = "min-samples"

    min_samples: int = setting(
        1, "A class of which a client has fewer samples does not leave it.", minimum=1
    )
    small_classes: Literal["withhold", "merge"] = setting(
        "withhold", "What becomes of such classes: withheld, or merged into one other class."
    )
    other_class: str = setting(
        "", "That other class; empty: 'other', or -1 where labels are integers."
    )

    def samples(self, labels: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
        """Return which samples are summarized, and under which labels.

        Raises
        ------
        SummaryError
            If the client has the other class as one of its own already, or its name is no integer
            where labels are.
        """
        classes, class_index, counts = np.unique(labels, return_inverse=True, return_counts=True)
        small = (counts < self.min_samples)[class_index]
        if self.small_classes == "merge" and small.any():
            other = self._other(labels)
            if other[0] in classes:
                raise SummaryError(
                    "other-class",
                    f"small classes are to be merged into {other[0].item()!r}, which is a class of "
                    "this client already: choose another name for the other class, or withhold",
                )
            if small.sum() >= self.min_samples:
                return np.ones(len(labels), dtype=bool), np.where(small, other, labels)
        return ~small, labels[~small]

    def _other(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return the other class as a label of the same type, shape (1,)."""
        if labels.dtype.kind == "U":
            return as_labels([self.other_class or OTHER_TEXT])
        try:
            return np.array([self.other_class or OTHER_INTEGER]).astype(np.int64)
        except (ValueError, OverflowError):
            raise SummaryError(
                "other-class",
                f"the other class is called {self.other_class!r}, but the labels are integers: "
                "give an integer that is no class",
            ) from None

    def __call__(self, summary: Summary, rng: np.random.Generator) -> Summary | None:
        """Return the summary with every row of enough samples; rows of a class are joined.

        Raises
        ------
        SummaryError
            If a row has fewer all the same.
        """
        joined = summary.joined(self.min_samples)
        if joined.counts.min() < self.min_samples:
            raise SummaryError(
                "kind",
                f"a summary of kind {summary.kind!r} has a row of {joined.counts.min()} samples, "
                f"fewer than {self.min_samples}; it is not sent",
                client_id=summary.client_ids[0],
            )
        return joined
