"""The closed form solved as the authors' code does, to tell what a solver moves from a method.

Their code solves the same system with a pseudo-inverse in float32 and the default cut of
``torch.linalg.pinv``: eigenvalues up to ``dim * eps`` of the largest count as zero, and eps of
float32 is 1.19e-7. (The default of ``numpy.linalg.pinv`` is another: 1e-15.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fedcof.experiments.clients import Clients
from fedcof.experiments.experiment import Execution, Procedure
from fedcof.experiments.one_round import method_columns, traffic_columns
from fedcof.heads import LinearHead, normalize_rows
from fedcof.methods import ClosedForm
from fedcof.numerics import rounding


@dataclass(frozen=True)
class Solved(Procedure):
    """All clients send in one round, and the server solves as the method does, or as the authors.

    Parameters
    ----------
    method : ClosedForm
    solver : {"exact", "pinv32"}, default "exact"
    """

    method: ClosedForm[Any]
    solver: Literal["exact", "pinv32"] = "exact"

    def columns(self) -> dict[str, Any]:
        """Return the method's name, its hyperparameters and the solver."""
        return {**method_columns(self.method), "solver": self.solver}

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return accuracy and traffic, and how many directions count as zero."""
        dealt = clients.dealt
        pooled, traffic, *_ = clients.pooled(clients.sender(self.method))
        gram = self.method.gram(pooled)
        if self.solver == "pinv32":
            weight, cut = pseudo_inverse_float32(gram, pooled.sums)
            head = LinearHead(weight, pooled.classes)
        else:
            head = self.method.fit(pooled)
            values = linalg.eigvalsh(gram)
            cut = int((values <= rounding(values[-1], len(values))).sum())
        return {
            "accuracy": head.score(dealt.test_features, dealt.test_labels),
            "directions_cut": cut,
            **traffic_columns(traffic, clients),
        }


def pseudo_inverse_float32(
    gram: NDArray[np.float64], sums: NDArray[np.floating[Any]]
) -> tuple[NDArray[np.float64], int]:
    """Return the normalised rows of ``W = G^+ B`` in float32, and how many directions it drops.

    Parameters
    ----------
    gram : ndarray of float64, shape (dim, dim)
        G with its regulariser, symmetric.
    sums : ndarray of float, shape (classes, dim)
        B.
    """
    values, vectors = linalg.eigh(gram.astype(np.float32))
    sizes = np.abs(values)
    kept = sizes > len(sizes) * np.finfo(np.float32).eps * sizes.max()
    basis = vectors[:, kept]
    weight = (sums.astype(np.float32) @ basis / values[kept]) @ basis.T
    return normalize_rows(weight.astype(np.float64)), int((~kept).sum())
