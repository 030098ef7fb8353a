"""Solving from more summaries than fit into memory, on one machine or on many."""

from fedcof.scale.batches import Batch, Batches
from fedcof.scale.solving import (
    Aside,
    Engine,
    Fragment,
    Read,
    Result,
    Solved,
    Task,
    in_process,
    solve,
)
from fedcof.scale.threads import in_threads

__all__ = [
    "Aside",
    "Batch",
    "Batches",
    "Engine",
    "Fragment",
    "Read",
    "Result",
    "Solved",
    "Task",
    "in_process",
    "in_threads",
    "solve",
]
