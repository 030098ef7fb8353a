"""The ridge regression of a client and its system: what AFL sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from fedcof.errors import SummaryError
from fedcof.numerics import add_to_diagonal
from fedcof.summaries.base import Summary
from fedcof.summaries.class_sums import check_one_row_per_class, sums_of_parts
from fedcof.summaries.gram import Gram
from fedcof.summaries.samples import Seed


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalRidge(Summary):
    """``W = C^-1 B`` and ``C = F F^T + lambda I`` of a client's own ridge regression.

    Parameters
    ----------
    weights : ndarray of float, shape (rows, dim)
        W, a row a class; that of a class which a client does not hold is zero and is not sent.
    system : ndarray of float, shape (dim, dim)
        C; of several clients, the sum.
    penalties : ndarray of float, shape (clients,)
        lambda of each client.
    """

    kind: ClassVar[str] = "local-ridge"
    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "weights": ("rows", "dim"),
        "system": ("dim", "dim"),
        "penalties": ("clients",),
    }

    weights: NDArray[np.floating[Any]]
    system: NDArray[np.floating[Any]]
    penalties: NDArray[np.floating[Any]]

    @classmethod
    def summarize(
        cls,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        client_id: str = "",
        rng: Seed = None,
        client_ridge: float = 1.0,
    ) -> Self:
        """Return the regression of a client, in float64; nothing is drawn."""
        own = Gram.summarize(features, labels, client_id=client_id)
        system = add_to_diagonal(np.array(own.gram), client_ridge)
        return cls(
            client_ids=(client_id,),
            classes=own.classes,
            counts=own.counts,
            weights=_solve(system, np.asarray(own.sums, dtype=np.float64)),
            system=system,
            penalties=np.array([client_ridge]),
        )

    @property
    def dim(self) -> int:
        """The length of a feature, d."""
        return int(self.system.shape[0])

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """B, the sum of the features of every class, shape (rows, dim)."""
        return np.asarray(self.weights.astype(np.float64) @ self.system)

    @property
    def row_means(self) -> NDArray[np.floating[Any]]:
        """The sums over the counts."""
        return np.asarray(self.sums / self.counts[:, None])

    @cached_property
    def scale(self) -> float:
        """The largest root mean square of a feature, with what the penalty adds to it."""
        return float((np.abs(np.diag(self.system)).max() / self.total) ** 0.5)

    def gram(self) -> NDArray[np.float64]:
        """Return ``F F^T`` of all clients: the system without their penalties."""
        return add_to_diagonal(self.system.astype(np.float64), -float(self.penalties.sum()))

    def _check(self) -> None:
        super()._check()
        check_one_row_per_class(self.classes)
        if not (self.penalties > 0).all():
            raise SummaryError("penalties", "a penalty is not positive")

    @classmethod
    def _merge(cls, parts: Sequence[Self]) -> Self:
        """Merge by the law of absolute aggregation: systems add up, and so do ``C W``."""
        fields = sums_of_parts(parts, [part.sums for part in parts])
        sums = fields.pop("sums")
        system = np.zeros_like(parts[0].system, dtype=np.float64)
        for part in parts:
            system += part.system
        penalties = sorted(
            (pair for part in parts for pair in zip(part.client_ids, part.penalties, strict=True)),
            key=lambda pair: pair[0],
        )
        return cls(
            **cls._clients(parts),
            **fields,
            weights=_solve(system, sums),
            system=system,
            penalties=np.array([penalty for _, penalty in penalties]),
        )


def _solve(system: NDArray[np.float64], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(linalg.solve(system, sums.T, assume_a="pos").T)
