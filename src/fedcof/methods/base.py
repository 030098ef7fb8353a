"""A method: what the client sends and what the server makes of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import SummaryError
from fedcof.heads import LinearHead, Provenance
from fedcof.summaries import Summary, ordered

S = TypeVar("S", bound=Summary)

METHODS: dict[str, type[Method[Any]]] = {}
"""Every method by its name."""


@dataclass(frozen=True)
class Method(ABC, Generic[S]):
    """One object with two halves; its fields are its hyperparameters.

    ``summarize`` runs on the client and returns all that leaves it; ``solve`` runs on the server.
    """

    name: ClassVar[str]
    """The name on the command line, in results and in a head's provenance."""
    summary_type: ClassVar[type[Summary]]
    """What the clients send."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            METHODS[cls.name] = cls

    @abstractmethod
    def summarize(
        self,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        client_id: str = "",
        rng: np.random.Generator | int | None = None,
    ) -> S:
        """Return what a client sends.

        Parameters
        ----------
        features : array_like of float, shape (n, dim)
            The features of the client's samples.
        labels : array_like of int or str, shape (n,)
            Their classes.
        client_id : str, optional
            The client's name.
        rng : numpy.random.Generator or int, optional
            For methods that draw random sets of samples.

        Raises
        ------
        SummaryError
            If the data is not well-formed.
        """

    def solve(self, summaries: Iterable[S]) -> LinearHead:
        """Return the head.

        Parameters
        ----------
        summaries : iterable of summaries
            What the clients sent, in any order.

        Raises
        ------
        SummaryError
            If there is none, two do not fit together, a client appears twice, or there is only one
            class in all.
        """
        parts = ordered(summaries, cast("type[S]", self.summary_type))
        head = self.fit(self.pool(parts))
        clients = sum(len(part.client_ids) for part in parts)
        rows = sum(part.rows_sent for part in parts)
        provenance = replace(
            head.provenance or Provenance(self.name),
            hyperparameters=asdict(self),
            clients=clients,
            samples=sum(part.total for part in parts),
            bytes=self.summary_type.formula(rows, parts[0].dim, clients),
        )
        return replace(head, provenance=provenance)

    @abstractmethod
    def pool(self, parts: Sequence[S]) -> Any:
        """Return all that the head depends on, from summaries in the order of their clients.

        The hyperparameters of `fit` do not enter, so a grid over them pools once.
        """

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> Any | None:
        """Return what `pool` gives, up to rounding, however these samples are dealt to clients.

        None where it depends on who holds what.
        """
        return None

    @abstractmethod
    def fit(self, pooled: Any) -> LinearHead:
        """Return the head from what `pool` gave."""


def check_two_classes(classes: NDArray[Any]) -> None:
    """Check that there is something to tell apart.

    Raises
    ------
    SummaryError
        If there is one class in all.
    """
    if len(classes) < 2:
        raise SummaryError(
            "classes",
            f"all clients hold only the class {classes[0].item()!r}; a classifier needs two",
        )


def check_at_least(minimum: float, **hyperparameters: float) -> None:
    """Check that hyperparameters are finite numbers that are not below a minimum.

    Raises
    ------
    ValueError
        With the first that is.
    """
    for name, value in hyperparameters.items():
        if not minimum <= value < math.inf:
            raise ValueError(f"{name} must be a number of at least {minimum}, it is {value}")


def get_method(name: str, **hyperparameters: Any) -> Method[Any]:
    """Return the method of that name.

    Raises
    ------
    ValueError
        If there is no such method; the message lists the near ones.
    """
    if name not in METHODS:
        near = get_close_matches(name, METHODS) or sorted(METHODS)
        raise ValueError(f"no method is called {name!r}; did you mean {' or '.join(near)}?")
    return METHODS[name](**hyperparameters)
