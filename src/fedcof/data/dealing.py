"""How the samples of a data set are dealt to clients: schemes as data, one way for all commands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcof.data.partition import Partition, by_column, dirichlet, hsu_dirichlet, iid
from fedcof.errors import SettingError
from fedcof.settings import check_settings, setting, settings_of

Columns = Mapping[str, NDArray[Any]]
"""What else a data set says of every sample, such as its user or domain."""


@dataclass(frozen=True)
class Dealing(ABC):
    """A scheme; its fields are its settings.

    Raises
    ------
    SettingError
        If a setting is out of its range; it is named.
    """

    name: ClassVar[str]
    """The name in results."""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def title(self) -> str:
        """The scheme for people, with its concentration or its column."""
        return self.name

    def columns(self) -> dict[str, Any]:
        """Return the scheme as columns of a row of results."""
        return {"partition": self.name, **asdict(self)}

    @abstractmethod
    def deal(self, labels: NDArray[Any], columns: Columns, seed: int) -> Partition:
        """Return which client holds which of n samples.

        Parameters
        ----------
        labels : ndarray of int or str, shape (n,)
        columns : mapping of str to ndarray, shape (n,)
        seed : int

        Raises
        ------
        ValueError
            If the samples cannot be dealt in this way.
        """


@dataclass(frozen=True)
class _ToClients(Dealing):
    clients: int = setting(100, "Number of clients, unless a column names them.", minimum=1)


@dataclass(frozen=True)
class _Mixed(_ToClients):
    alpha: float = setting(0.1, "Dirichlet concentration; small: few classes a client.", above=0)


@dataclass(frozen=True)
class Dirichlet(_Mixed):
    """Every client has a Dirichlet mix of classes: the paper's scheme, see `dirichlet`."""

    name: ClassVar[str] = "dirichlet"

    @property
    def title(self) -> str:
        """Such as "Dirichlet 0.1"."""
        return f"Dirichlet {self.alpha:g}"

    def deal(self, labels: NDArray[Any], columns: Columns, seed: int) -> Partition:
        """Return which client holds which sample."""
        return dirichlet(labels, self.clients, self.alpha, seed=seed)


@dataclass(frozen=True)
class ClassWise(_Mixed):
    """Every class has a Dirichlet mix of clients: the scheme of most benchmarks.

    See `hsu_dirichlet`.
    """

    name: ClassVar[str] = "class-wise"

    @property
    def title(self) -> str:
        """Such as "class-wise 0.1"."""
        return f"class-wise {self.alpha:g}"

    def deal(self, labels: NDArray[Any], columns: Columns, seed: int) -> Partition:
        """Return which client holds which sample."""
        return hsu_dirichlet(labels, self.clients, self.alpha, seed=seed)


@dataclass(frozen=True)
class Iid(_ToClients):
    """Every client has a random share of all samples."""

    name: ClassVar[str] = "iid"

    def deal(self, labels: NDArray[Any], columns: Columns, seed: int) -> Partition:
        """Return which client holds which sample."""
        return iid(len(labels), self.clients, seed=seed)


@dataclass(frozen=True)
class ByColumn(Dealing):
    """A client for every user, or domain, or whatever a column of the data set names."""

    name: ClassVar[str] = "column"
    column: str

    @property
    def title(self) -> str:
        """Such as "by user"."""
        return f"by {self.column}"

    def deal(self, labels: NDArray[Any], columns: Columns, seed: int) -> Partition:
        """Return which client holds which sample.

        Raises
        ------
        ValueError
            If the data set has no such column.
        """
        if self.column not in columns:
            raise ValueError(
                f"this data set has no column {self.column!r} to deal by; it has "
                f"{', '.join(columns) or 'no columns'}"
            )
        return by_column(columns[self.column])


@dataclass(frozen=True)
class Central(Dealing):
    """One client holds everything."""

    name: ClassVar[str] = "central"
    clients: int = field(default=1, init=False)

    def deal(self, labels: NDArray[Any], columns: Columns, seed: int) -> Partition:
        """Return which client holds which sample."""
        return Partition(np.zeros(len(labels), dtype=np.int64), ("all",))


SCHEMES = (Dirichlet, ClassWise, Iid)
"""The schemes that deal any data set; their settings are those of the command line."""


def dealings(columns: Iterable[str] = (), **settings: Any) -> dict[str, Dealing]:
    """Return the ways to deal a data set by their names on the command line.

    Parameters
    ----------
    columns : iterable of str
        Those of the data set. Each is a way to deal by its own name, unless a scheme has the name.
    **settings
        Each scheme takes those that it has, such as ``clients`` and ``alpha``.
    """
    named: dict[str, Dealing] = {
        scheme.name: scheme(
            **{key: settings[key] for key in settings_of(scheme) if key in settings}
        )
        for scheme in SCHEMES
    }
    return named | {column: ByColumn(column) for column in columns if column not in named}


def get_dealing(name: str, columns: Iterable[str] = (), **settings: Any) -> Dealing:
    """Return the way to deal a data set that has a name on the command line; see `dealings`.

    Raises
    ------
    ValueError
        If there is none; those that there are are listed.
    SettingError
        If it has no such setting, or not with this value.

    Examples
    --------
    >>> get_dealing("user", ["user", "domain"])
    ByColumn(column='user')
    """
    known = dealings(columns, **settings)
    if name not in known:
        raise ValueError(f"no partition is called {name!r}; there are {', '.join(known)}")
    dealing = known[name]
    for lacking in (key for key in settings if key not in settings_of(type(dealing))):
        reason = (
            f"the column {name} names the clients"
            if isinstance(dealing, ByColumn)
            else f"it has {', '.join(settings_of(type(dealing)))}"
        )
        raise SettingError(lacking, f"is no setting of the partition {name}: {reason}")
    return dealing
