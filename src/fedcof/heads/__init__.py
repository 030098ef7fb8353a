"""Heads: from features to scores of classes."""

from fedcof.heads.base import Head, Provenance
from fedcof.heads.linear import (
    LinearHead,
    least_squares,
    linear,
    normalize_rows,
    solve_discriminant,
    solve_head,
)

__all__ = [
    "Head",
    "LinearHead",
    "Provenance",
    "least_squares",
    "linear",
    "normalize_rows",
    "solve_discriminant",
    "solve_head",
]
