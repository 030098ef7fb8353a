"""FedNCM: the class means themselves (Legate et al., 2023; eq. fedncm)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedcof.errors import StreamingError
from fedcof.heads import LinearHead, normalize_rows
from fedcof.methods.base import Method, check_two_classes
from fedcof.methods.passes import ROBUST, MeansPass, Pass
from fedcof.scatter import ClassStatistics
from fedcof.settings import setting
from fedcof.summaries import ClassMeans, Summary


@dataclass(frozen=True)
class FedNCM(Method[ClassMeans]):
    """The nearest class mean by inner product: ``W_c = mu_c / |mu_c|``.

    Parameters
    ----------
    robust : bool, default False
        Whether the class means are those that no minority of the clients can move far; see
        `fedcof.robust`. It takes medians over all means, so the server must hold them all.

    Examples
    --------
    >>> import numpy as np
    >>> method = FedNCM()
    >>> site = method.summarize(np.array([[0.0, 1.0], [2.0, 0.0]]), ["cat", "dog"])
    >>> method.solve([site]).predict([[3.0, 1.0]])
    array(['dog'], dtype='<U3')
    """

    name: ClassVar[str] = "fedncm"
    summary_type: ClassVar[type[Summary]] = ClassMeans
    averages_noise: ClassVar[bool] = True

    robust: bool = setting(
        False, "Let no minority of the clients move a class far; see fedcof.robust."
    )

    def pool(self, parts: Sequence[ClassMeans]) -> ClassStatistics:
        """Return the class means."""
        return ClassStatistics.of(parts, robust=self.robust)

    def streamed(self) -> Pass[Any]:
        """Return a pass for the class means alone."""
        if self.robust:
            raise StreamingError(self.name, ROBUST)
        return MeansPass(ClassStatistics.of_classes)

    def fit(self, pooled: ClassStatistics) -> LinearHead:
        """Return the class means at length 1."""
        check_two_classes(pooled.classes)
        return LinearHead(normalize_rows(pooled.class_means()), pooled.classes)
