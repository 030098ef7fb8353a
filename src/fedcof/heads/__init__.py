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
from fedcof.heads.quadratic import QuadraticHead, solve_quadratic, whitening

__all__ = [
    "Head",
    "LinearHead",
    "Provenance",
    "QuadraticHead",
    "least_squares",
    "linear",
    "normalize_rows",
    "solve_discriminant",
    "solve_head",
    "solve_quadratic",
    "whitening",
]
