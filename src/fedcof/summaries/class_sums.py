"""The sum of every class, beside other arrays that add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import SummaryError, naming
from fedcof.numerics import GroupSums, Rows, sum_by_group
from fedcof.summaries.base import Summary
from fedcof.summaries.samples import check_samples


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassSums(Summary):
    """A statistic that is a sum over samples, whoever has them.

    So merging adds, a client is taken out by subtracting what it sent, and the result does not
    depend on how the samples are dealt to clients. A subclass adds arrays with a fixed shape to
    `axes`.

    Parameters
    ----------
    sums : ndarray of float, shape (rows, dim)
        The sum of the features of every class; a class has one row.
    """

    sums: NDArray[np.floating[Any]]

    @property
    def dim(self) -> int:
        """The length of a feature, d."""
        return int(self.sums.shape[1])

    @cached_property
    def row_means(self) -> NDArray[np.floating[Any]]:
        """The sums over the counts."""
        return np.asarray(self.sums / self.counts[:, None])

    def _check(self) -> None:
        super()._check()
        check_one_row_per_class(self.classes)

    @classmethod
    def others(cls) -> list[str]:
        """Return the arrays besides the sums."""
        return [name for name in cls.axes if name != "sums"]

    @classmethod
    def _merge(cls, parts: Sequence[Self]) -> Self:
        totals: dict[str, Any] = {}
        for name in cls.others():
            totals[name] = np.zeros_like(getattr(parts[0], name), dtype=np.float64)
            for part in parts:
                totals[name] += getattr(part, name)
        return cls(
            **cls._clients(parts),
            **sums_of_parts(parts, [part.sums for part in parts]),
            **totals,
        )

    def _minus(self, own: Self) -> Self:
        counts = self._counts_without(own)
        sums = self.sums.astype(np.float64)
        place = {label: row for row, label in enumerate(self.classes.tolist())}
        sums[[place[label] for label in own.classes.tolist()]] -= own.sums
        left = counts > 0
        totals: dict[str, Any] = {
            name: getattr(self, name).astype(np.float64) - getattr(own, name)
            for name in self.others()
        }
        return type(self)(
            **self._clients_without(own.client_ids[0]),
            classes=self.classes[left],
            counts=counts[left],
            sums=sums[left],
            **totals,
        )


def sums_of_samples(
    features: ArrayLike, labels: ArrayLike, client_id: str
) -> tuple[NDArray[np.floating[Any]], dict[str, Any]]:
    """Return a client's features, checked, and the sum and count of every class.

    Returns
    -------
    array : ndarray of float, shape (n, dim)
    fields : dict
        The fields client_ids, classes, counts and sums of a summary.

    Raises
    ------
    SummaryError
        If the samples are not well-formed.
    """
    with naming(client_id):
        array, coded = check_samples(features, labels)
    classes, class_index = np.unique(coded, return_inverse=True)
    by_class = GroupSums.of([array], class_index, len(classes))
    fields = {
        "client_ids": (client_id,),
        "classes": classes,
        "counts": by_class.rows,
        "sums": by_class.sums,
    }
    return array, fields


def sums_of_parts(parts: Sequence[Summary], sums: Rows) -> dict[str, Any]:
    """Return the fields classes, counts and sums of several summaries, one row a class.

    Parameters
    ----------
    parts : sequence of Summary
    sums : sequence of ndarray of float, each of shape (rows, dim)
        The sums of the features of every summary's rows.
    """
    labels = np.concatenate([part.classes for part in parts])
    classes, class_index = np.unique(labels, return_inverse=True)
    counts = np.zeros(len(classes), dtype=np.int64)
    np.add.at(counts, class_index, np.concatenate([part.counts for part in parts]))
    return {
        "classes": classes,
        "counts": counts,
        "sums": sum_by_group(sums, class_index, len(classes)),
    }


def check_one_row_per_class(classes: NDArray[Any]) -> None:
    """Check that no class has two rows.

    Raises
    ------
    SummaryError
        With the first class that has.
    """
    labels, counts = np.unique(classes, return_counts=True)
    if counts.max() > 1:
        raise SummaryError("classes", f"class {labels[counts.argmax()].item()!r} appears twice")
