"""Labelled features, as experiments use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Labelled features.

    Parameters
    ----------
    features : (n, dim) float array
    labels : (n,) int array
        Index into ``classes``.
    classes : tuple of str
        Names of the classes.
    columns : mapping of str to (n,) array
        What else is known of every sample, such as its "user" or "domain".
    """

    features: NDArray[np.floating[Any]]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, rows: NDArray[np.int64]) -> FeatureTable:
        """Return the samples of these rows, in this order."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return FeatureTable(self.features[rows], self.labels[rows], self.classes, columns)
