"""Methods that know the scatter within the classes, and the two heads that it gives.

The paper's head is a least-squares solution with rows of length 1 and without a bias. The other is
the linear discriminant analysis of the same statistics: its scores are log posteriors.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import SettingError, first_of
from fedcof.heads import LinearHead, solve_discriminant, solve_head
from fedcof.methods.base import Method, check_two_classes, chosen
from fedcof.rejection import Rejection
from fedcof.scatter import Scatter
from fedcof.settings import setting
from fedcof.summaries import Summary

S = TypeVar("S", bound=Summary)

Form = Literal["regression", "lda"]


@dataclass(frozen=True, kw_only=True)
class ClosedForm(Method[S]):
    """A method whose `pool` gives the class means and the scatter within the classes.

    Parameters
    ----------
    form : {"regression", "lda"}, default "regression"
        The least-squares solution with rows of length 1, as in the paper, or the linear
        discriminant analysis, whose scores are log posteriors; see
        `fedcof.heads.solve_discriminant`.
    priors : str, default "counts"
        Of the form lda: how frequent every class is where the head is used. "counts" for the shares
        of the samples, "uniform" for equal shares, or shares by class such as ``cat=1,dog=3``.
    temperature : float, default 1.0
        Of the form lda: what its scores are divided by. Above 1, probabilities are less sure.
    """

    form: Form = setting(
        "regression", "The paper's least squares, or lda, whose scores are log posteriors."
    )
    priors: str = setting(
        "counts",
        "How frequent the classes are, for the form lda: counts, uniform, or CLASS=SHARE,...",
    )

    temperature: float = setting(
        1.0, "What the scores of the form lda are divided by; fedcof evaluate fits it.", above=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_priors(self.priors)
        if self.form == "regression":
            for name, unused in (("priors", "counts"), ("temperature", 1.0)):
                if (given := getattr(self, name)) != unused:
                    raise SettingError(name, f"is of the form lda alone, here it is {given!r}")

    def scatter_of(self, pooled: Any) -> Scatter:
        """Return class means and scatter, from what `pool` gave."""
        scatter: Scatter = pooled
        return scatter

    @abstractmethod
    def gram(self, pooled: Any) -> NDArray[np.float64]:
        """Return G with its regulariser, the system of the regression."""

    @abstractmethod
    def covariance(self, scatter: Scatter) -> NDArray[np.float64]:
        """Return the covariance that all classes share, with its regulariser."""

    def fit(self, pooled: Any) -> LinearHead:
        """Return the head of the form that is asked for; what is automatic is chosen."""
        check_two_classes(pooled.classes)
        method = self.tuned(pooled)
        provenance = chosen(self, method)
        if method.form == "regression":
            weight = solve_head(method.gram(pooled), pooled.sums)
            return LinearHead(weight, pooled.classes, provenance=provenance)
        scatter = method.scatter_of(pooled)
        priors = class_priors(method.priors, scatter.classes, scatter.class_counts)
        weight, bias = solve_discriminant(scatter.class_means, method.covariance(scatter), priors)
        t = method.temperature
        rejection = Rejection.of(weight, scatter.class_means, priors, t)
        return LinearHead(
            weight / t,
            scatter.classes,
            bias / t,
            provenance,
            probabilistic=True,
            rejection=rejection,
        )


_SHARE = re.compile(r"(?P<label>.+?)=(?P<share>[^=,]+)(?:,\s*|$)")


def parse_priors(text: str) -> dict[str, float]:
    """Return the shares by class of a text such as ``cat=1,dog=3``; none of a name.

    Raises
    ------
    SettingError
        If the text is neither "counts" nor "uniform" nor such a list, or a share is not positive.
    """
    if text in ("counts", "uniform"):
        return {}
    matches = list(_SHARE.finditer(text))
    try:
        shares = {match["label"]: float(match["share"]) for match in matches}
    except ValueError:
        shares = {}
    whole = "".join(match[0] for match in matches) == text
    if not whole or not shares or not all(0 < share < np.inf for share in shares.values()):
        raise SettingError(
            "priors",
            "must be counts, uniform, or a positive share for every class, such as cat=1,dog=3; "
            f"it is {text!r}",
        )
    return shares


def class_priors(
    text: str, classes: NDArray[Any], class_counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the prior of every class of a head, shape (classes,); they sum to 1.

    Parameters
    ----------
    text : str
        As `ClosedForm.priors`. Shares of classes that nobody holds are left out.
    classes : ndarray, shape (classes,)
    class_counts : ndarray of int64, shape (classes,)
        N_c.

    Raises
    ------
    SettingError
        If shares are given and one of the classes has none.
    """
    if text == "uniform":
        return np.full(len(classes), 1 / len(classes))
    if text == "counts":
        return np.asarray(class_counts / class_counts.sum())
    given = parse_priors(text)
    if lacking := [str(label) for label in classes.tolist() if str(label) not in given]:
        raise SettingError("priors", f"say nothing of {first_of(lacking, limit=10)}")
    shares = np.array([given[str(label)] for label in classes.tolist()])
    return np.asarray(shares / shares.sum())
