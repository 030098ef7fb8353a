"""Statistics with axes that no statistic of the package has."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from fedcof import Summary, merge


@dataclass(frozen=True, eq=False, kw_only=True)
class Toy(Summary):
    """The sum of every class, and a row for every client; the last axis is always 3 long."""

    kind: ClassVar[str] = "toy-axes"
    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "sums": ("rows", "dim"),
        "totals": ("clients", "dim"),
        "moments": ("clients", "order"),
    }
    sums: np.ndarray
    totals: np.ndarray
    moments: np.ndarray

    dim = property(lambda self: self.sums.shape[1])
    scale = property(lambda self: 1.0)

    @classmethod
    def _merge(cls, parts):
        return cls(
            **cls._clients(parts),
            classes=parts[0].classes,
            counts=sum(part.counts for part in parts),
            sums=sum(part.sums for part in parts),
            totals=np.concatenate([part.totals for part in parts]),
            moments=np.concatenate([part.moments for part in parts]),
        )


class ToyOfThree(Toy):
    kind = "toy-of-three"

    @classmethod
    def expected_lengths(cls, dim, client_settings):
        return {**super().expected_lengths(dim, client_settings), "order": 3}


def make(cls, client_id):
    return cls(
        client_ids=(client_id,),
        classes=[0, 1],
        counts=[1, 1],
        sums=np.ones((2, 4)),
        totals=np.ones((1, 4)),
        moments=np.ones((1, 3)),
    )


def test_an_array_with_a_row_a_client_is_counted_once_where_clients_are_merged():
    parts = [make(Toy, name) for name in "abc"]
    assert [part.formula_bytes for part in parts] == [4 * (2 * 4 + 4 + 3)] * 3
    assert merge(parts).formula_bytes == 3 * parts[0].formula_bytes


def test_an_axis_whose_length_no_hyperparameter_says_is_said_by_the_statistic():
    summary = make(ToyOfThree, "a")
    lengths = ToyOfThree.expected_lengths(4, {})
    assert ToyOfThree.encoded_size(summary.classes, lengths, client_id="a") == (
        summary.formula_bytes,
        len(summary.to_bytes()),
    )
    with pytest.raises(NotImplementedError, match=r"Toy has the axes \['order'\]"):
        Toy.encoded_size(summary.classes, Toy.expected_lengths(4, {}))
