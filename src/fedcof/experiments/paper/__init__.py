"""The paper's tables and figures, by the paper's own labels."""

from fedcof.experiments.paper import ablations, comparisons, scatter, training

DECLARED = (
    *comparisons.EXPERIMENTS,
    *scatter.EXPERIMENTS,
    *ablations.EXPERIMENTS,
    *training.EXPERIMENTS,
)
"""Every experiment of the paper, as it is declared."""

__all__ = ["DECLARED"]
