"""Class means, and a sketch of the scatter about them: what FedCOFSketch sends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import SummaryError, naming
from fedcof.numerics import GroupSums, scaled_eigenvectors
from fedcof.summaries.class_sums import check_one_row_per_class
from fedcof.summaries.client_rows import ClientRows
from fedcof.summaries.samples import Seed, check_samples


@dataclass(frozen=True, eq=False, kw_only=True)
class ScatterSketch(ClientRows):
    """Class means, the largest eigenpairs of the scatter about them, and the trace of the rest.

    The scatter of a client is pooled over its classes, ``sum_c sum_i (x_i - mu_kc)(x_i -
    mu_kc)^T``. Its r largest eigenvalues with their eigenvectors travel as r vectors, ``sqrt(value)
    vector``, whose outer products add up to the best approximation of rank r; of the rest the trace
    travels. Nothing is merged: the vectors stand in the order of the clients.

    Parameters
    ----------
    means : ndarray of float, shape (rows, dim)
        The mean feature of every class; a client has one row a class.
    vectors : ndarray of float, shape (rank, dim)
        The scaled eigenvectors, the largest first. Every client has a rank of its own, at most
        ``n - classes`` and `dim`; 0 is one.
    trace : ndarray of float, shape (clients,)
        The trace of every client's scatter less that of its vectors, at least 0.
    rank_per_client : ndarray of int64, shape (clients,), optional
        How many vectors each client sent. All vectors where there is one client.
    """

    kind: ClassVar[str] = "scatter-sketch"
    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "means": ("rows", "dim"),
        "vectors": ("rank", "dim"),
        "trace": ("clients",),
    }
    free_axes: ClassVar[frozenset[str]] = frozenset({"rank"})
    centred: ClassVar[frozenset[str]] = frozenset({"means"})

    means: NDArray[np.floating[Any]]
    vectors: NDArray[np.floating[Any]]
    trace: NDArray[np.floating[Any]]
    rank_per_client: NDArray[np.int64] = None  # type: ignore[assignment]  # an array once checked

    @classmethod
    def summarize(
        cls,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        client_id: str = "",
        rng: Seed = None,
        rank: int = 0,
    ) -> Self:
        """Return the means, and as many eigenpairs as asked for and as there are.

        In the data type of the features; the means and the trace in float64. Nothing is drawn.
        """
        with naming(client_id):
            array, coded = check_samples(features, labels)
        classes, class_index = np.unique(coded, return_inverse=True)
        by_class = GroupSums.of([array], class_index, len(classes))
        if array.dtype == np.float16:
            array = array.astype(np.float32)
        deviations = array - by_class.means.astype(array.dtype)[class_index]
        rank = min(rank, len(array) - len(classes))
        vectors, trace = scaled_eigenvectors(deviations, rank)
        return cls(
            client_ids=(client_id,),
            classes=classes,
            counts=by_class.rows,
            means=by_class.means,
            vectors=vectors,
            trace=np.array([trace]),
        )

    @property
    def dim(self) -> int:
        """The length of a feature, d."""
        return int(self.means.shape[1])

    @property
    def row_means(self) -> NDArray[np.floating[Any]]:
        """The means themselves."""
        return self.means

    @property
    def within_trace(self) -> float:
        """The traces of what is sketched and of what is left."""
        return float(np.square(self.vectors, dtype=np.float64).sum() + self.trace.sum())

    @cached_property
    def scale(self) -> float:
        """The largest number in a mean, or the root mean square of the deviations."""
        return float(max(np.abs(self.means).max(), (self.within_trace / self.total) ** 0.5))

    def _check(self) -> None:
        super()._check()
        ranks = self.rank_per_client
        if ranks is None and len(self.client_ids) == 1:
            ranks = np.array([len(self.vectors)])
        ranks = np.asarray([] if ranks is None else ranks)
        if (
            ranks.shape != (len(self.client_ids),)
            or ranks.dtype.kind not in "iu"
            or (ranks < 0).any()
            or ranks.sum() != len(self.vectors)
        ):
            raise SummaryError(
                "shape",
                f"rank_per_client must say for each of {len(self.client_ids)} clients how many of "
                f"the {len(self.vectors)} vectors it sent",
            )
        self._set("rank_per_client", ranks.astype(np.int64))
        starts = np.cumsum([0, *self.rows_per_client[:-1]])
        samples = np.add.reduceat(self.counts, starts)
        most = np.minimum(samples - self.rows_per_client, self.dim)
        for client_id, rank, limit in zip(self.client_ids, ranks, most, strict=True):
            if rank > limit:
                raise SummaryError(
                    "rank",
                    f"{rank} vectors, but the scatter has rank {limit} at most: that of the "
                    "samples less the classes, or of the length of a feature",
                    client_id=client_id,
                )
        if (self.trace < 0).any():
            raise SummaryError(
                "trace", f"the trace of what is left is {self.trace.min():g}, below 0"
            )
        if len(self.client_ids) == 1:
            check_one_row_per_class(self.classes)

    def _numbers_sent(self) -> int:
        return sum(getattr(self, name).size for name in self.axes)

    def _owners(self) -> Mapping[str, NDArray[np.int64]]:
        return {**super()._owners(), "rank_per_client": self.rank_per_client}

    def _without(self, client_id: str) -> Self:
        left = np.array([name != client_id for name in self.client_ids])
        return type(self)(
            **self._rows_without(client_id),
            vectors=self.vectors[np.repeat(left, self.rank_per_client)],
            trace=self.trace[left],
            rank_per_client=self.rank_per_client[left],
        )

    def _others_apart(self) -> Iterable[dict[str, Any]]:
        return [{"vectors": vectors, "trace": trace} for _, vectors, trace in self._sketches()]

    @classmethod
    def _merge(cls, parts: Sequence[Self]) -> Self:
        sketches = [sketch for part in parts for sketch in part._sketches()]
        sketches.sort(key=itemgetter(0))
        return cls(
            **cls._merged_rows(parts),
            vectors=np.concatenate([vectors for _, vectors, _ in sketches]),
            trace=np.concatenate([trace for _, _, trace in sketches]),
            rank_per_client=np.array([len(vectors) for _, vectors, _ in sketches]),
        )

    def _sketches(
        self,
    ) -> Iterator[tuple[str, NDArray[np.floating[Any]], NDArray[np.floating[Any]]]]:
        """Yield the vectors and the trace of every client with its id."""
        stops = np.cumsum(self.rank_per_client).tolist()
        for k, (client_id, start) in enumerate(zip(self.client_ids, [0, *stops[:-1]], strict=True)):
            yield client_id, self.vectors[start : stops[k]], self.trace[k : k + 1]
