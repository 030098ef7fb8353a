"""Buckets and groups: sparse features whose linear head is one with an embedding a group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedcof.errors import SettingError
from fedcof.settings import setting
from fedcof.transforms.base import Transform

if TYPE_CHECKING:
    from torch import Tensor

_LARGEST = 2**28
"""Numbers in a constant: a gibibyte. The text of a transform may come from anybody."""


@dataclass(frozen=True)
class Buckets(Transform):
    """Which combination of bits every group of features shows, a 1 in a row of zeros.

    A value gives as many bits as there are thresholds: whether it is above each. The bits are
    shuffled and put into groups, and a group of g bits becomes ``2^g`` features, of which one is 1.
    It takes standardised features: the thresholds are the quantiles of a Gaussian.

    Parameters
    ----------
    thresholds : int, default 2
        Bits of a value.
    group : int, default 2
        Bits of a group, g.
    seed : int, default 0
        Shuffles the bits, the same on every machine.
    inputs : int, optional
        The length of the features that it takes. Default: whatever comes; what leaves a client
        says which it was.

    Notes
    -----
    Of SAFLe, "Single-Round Scalable Analytic Federated Learning" (Bacellar et al., 2026), which
    solves the head by AFL: ``--method afl --transform standardize+buckets:2:2``. It is published
    that values are bucketed in binary, overlapping buckets, shuffled and grouped, and that a sum of
    an embedding a group is a linear head of such features. Thresholds, sizes and how many groupings
    there are could not be found out: those here are assumed, and so is the standardisation.

    Examples
    --------
    >>> Buckets(thresholds=1, group=2)([[2.0, -2.0]])
    array([[0., 0., 1., 0.]])
    >>> str(Buckets().bound(512))
    'buckets:2:2:0:512'
    """

    name: ClassVar[str] = "buckets"

    thresholds: int = setting(2, "Bits of a value.", minimum=1, maximum=64)
    group: int = setting(2, "Bits of a group.", minimum=1, maximum=8)
    seed: int = setting(0, "Shuffles the bits.", minimum=0, maximum=2**63)
    inputs: int | None = setting(
        None, "Length of the features that it takes.", minimum=1, maximum=2**16
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        inputs = self.inputs or 1
        bits = inputs * self.thresholds
        if bits * max(inputs, self.output_dim(inputs)) > _LARGEST:
            raise SettingError("inputs", f"of {inputs:,} make more than 2**28 numbers of constants")

    def apply(self, features: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the features of the groups, 0 or 1."""
        plan = self._plan(features.shape[1])
        bits = (features[:, plan.source] > plan.thresholds).astype(features.dtype)
        return (bits @ plan.pattern.astype(features.dtype) > plan.least).astype(features.dtype)

    def constants(self, dim: int) -> dict[str, NDArray[np.float32]]:
        """Return what picks the bits, their thresholds, and the combinations."""
        plan = self._plan(dim)
        pick = np.zeros((dim, len(plan.source)), dtype=np.float32)
        pick[plan.source, np.arange(len(plan.source))] = 1
        return {
            "pick": pick,
            "thresholds": plan.thresholds,
            "pattern": plan.pattern,
            "least": plan.least,
        }

    def onnx_nodes(self, source: str, target: str) -> str:
        """Return the comparisons, as products with what picks and what matches."""
        return f"""
            {target}_picked = MatMul ({source}, {target}_pick)
            {target}_above = Greater ({target}_picked, {target}_thresholds)
            {target}_bits = Cast <to = 1> ({target}_above)
            {target}_matched = MatMul ({target}_bits, {target}_pattern)
            {target}_shown = Greater ({target}_matched, {target}_least)
            {target} = Cast <to = 1> ({target}_shown)
        """

    def on_tensor(self, features: Tensor, constants: Mapping[str, Tensor]) -> Tensor:
        """Return the features of the groups."""
        above = features @ constants["pick"] > constants["thresholds"]
        matched = above.to(features.dtype) @ constants["pattern"]
        return (matched > constants["least"]).to(features.dtype)

    def output_dim(self, dim: int) -> int:
        """Return how many combinations all groups have."""
        groups = -(-dim * self.thresholds // self.group)
        return groups << self.group

    def input_dim(self, dim: int) -> int:
        """Return the length of the features that it takes."""
        if self.inputs is None:
            raise SettingError("transform", f"{self} does not say the length of what it takes")
        if dim != self.output_dim(self.inputs):
            raise SettingError(
                "transform", f"{self} gives features of length {self.output_dim(self.inputs)}"
            )
        return self.inputs

    def bound(self, dim: int) -> Buckets:
        """Return the buckets of features of length `dim`."""
        if self.inputs not in (None, dim):
            raise SettingError(
                "transform", f"{self} takes features of length {self.inputs}, these have {dim}"
            )
        return replace(self, inputs=dim)

    def _plan(self, dim: int) -> _Plan:
        self.bound(dim)
        return _plan(dim, self.thresholds, self.group, self.seed)


class _Plan(NamedTuple):
    """Which value a bit is of, its threshold, and what the combinations are.

    A combination matches the bits where their product with its column, 1 for a bit that it has and
    -1 for one that it has not, is as large as it has bits.
    """

    source: NDArray[np.intp]
    thresholds: NDArray[np.float32]
    pattern: NDArray[np.float32]
    least: NDArray[np.float32]


@lru_cache(maxsize=4)
def _plan(dim: int, thresholds: int, group: int, seed: int) -> _Plan:
    bits = dim * thresholds
    # By the order of raw numbers: a generator's shuffle need not be the same in all versions.
    order = np.argsort(np.random.PCG64(seed).random_raw(bits), kind="stable")
    quantiles = ndtri(np.arange(1, thresholds + 1) / (thresholds + 1))
    groups = -(-bits // group)
    pattern = np.zeros((groups * group, groups * 2**group), dtype=np.float32)
    combinations = np.arange(2**group) >> np.arange(group)[:, None] & 1
    for place in range(groups):
        rows = slice(place * group, (place + 1) * group)
        pattern[rows, place * 2**group : (place + 1) * 2**group] = 2 * combinations - 1
    least = np.tile(combinations.sum(axis=0), groups) - 0.5
    return _Plan(
        order // thresholds,
        quantiles[order % thresholds].astype(np.float32),
        pattern[:bits],
        least.astype(np.float32),
    )
