"""What each client has spent of its privacy, over all runs; more than its budget is refused.

Losses in zCDP add up over releases, whoever asked for them and whatever was asked before, so a
ledger is a sum of rho for every client. It is a file of its own, ``privacy.db``: a run folder ends
with its run, a budget does not. A loss is on the disk before anything is sent, so a process that
is killed, or a machine that loses its power, in between has spent what it may not have sent.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fedcof.errors import BudgetError
from fedcof.privacy.accountant import epsilon_of, rho_of
from fedcof.privacy.differential import Neighbours

_TABLE = """
CREATE TABLE IF NOT EXISTS losses (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    client TEXT NOT NULL,
    neighbours TEXT NOT NULL,
    rho REAL NOT NULL CHECK (rho > 0),
    release TEXT NOT NULL,
    at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
)
"""

_CODE = "privacy-budget"

_ROUNDING = 1 - 1e-9
"""Of a sum of losses, so that a budget takes as many releases as it was divided into."""


@dataclass(frozen=True)
class Budget:
    """What a client may lose in all.

    Parameters
    ----------
    epsilon, delta : float
    neighbours : {"sample", "client"}, default "sample"
        Losses of the two kinds are kept apart: they protect something else.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours = "sample"

    @property
    def rho(self) -> float:
        """The same in zCDP, the unit in which losses add up."""
        return rho_of(self.epsilon, self.delta)


class Ledger:
    """The losses of all clients, in one file.

    The server of a federation keeps one, and every site its own: it is the site that can refuse.

    Parameters
    ----------
    path : Path
        Made where it is missing; readable by its owner only.

    Raises
    ------
    BudgetError
        If the file cannot be used: without it nobody knows what was spent, so nothing is sent.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> budget = Budget(epsilon=1.0, delta=1e-5)
    >>> with TemporaryDirectory() as folder:
    ...     ledger = Ledger(Path(folder) / "privacy.db")
    ...     ledger.spend("north", budget.rho / 2, budget, release="first run")
    ...     round(ledger.epsilon("north", budget.delta), 2)
    0.69
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            with closing(self._connect()) as database:
                database.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None

    def spent(self, client_id: str, neighbours: Neighbours = "sample") -> float:
        """Return what a client has lost, in zCDP."""
        try:
            with closing(self._connect()) as database:
                return _spent(database, client_id, neighbours)
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def epsilon(
        self, client_id: str, delta: float, neighbours: Neighbours = "sample", *, more: float = 0.0
    ) -> float:
        """Return what a client has lost as epsilon at a delta, with so much rho more."""
        return epsilon_of(self.spent(client_id, neighbours) + more, delta)

    def check(self, client_id: str, rho: float, budget: Budget) -> None:
        """Check that a client has so much of its budget left; nothing is written.

        Raises
        ------
        BudgetError
            If it has not.
        """
        _check_left(self.spent(client_id, budget.neighbours), rho, budget, client_id)

    def spend(self, client_id: str, rho: float, budget: Budget, *, release: str) -> None:
        """Write down a loss, or refuse it; call it before anything is sent.

        Of two processes at once one waits, so that both together stay within the budget.

        Parameters
        ----------
        client_id : str
        rho : float
            What the release costs, `CentralPrivacy.rho`.
        budget : Budget
            The client's, over all time.
        release : str
            For people: the run, and what was asked.

        Raises
        ------
        BudgetError
            If the client would lose more than its budget; nothing is written then.
        """
        if not rho > 0:
            raise BudgetError(_CODE, f"a loss must be positive, it is {rho}")
        try:
            with closing(self._connect()) as database, database:
                database.execute("BEGIN IMMEDIATE")
                before = _spent(database, client_id, budget.neighbours)
                _check_left(before, rho, budget, client_id)
                database.execute(
                    "INSERT INTO losses (client, neighbours, rho, release) VALUES (?, ?, ?, ?)",
                    (client_id, budget.neighbours, rho, release),
                )
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _connect(self) -> sqlite3.Connection:
        """Return a connection; what it commits outlasts a loss of power."""
        database = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        database.execute("PRAGMA synchronous = FULL")
        return database

    def _unusable(self, error: Exception) -> BudgetError:
        return BudgetError(
            _CODE,
            f"{self.path} cannot be used as the ledger of privacy losses: {error}; nothing is sent "
            "without it",
        )


def _spent(database: sqlite3.Connection, client_id: str, neighbours: Neighbours) -> float:
    query = "SELECT rho FROM losses WHERE client = ? AND neighbours = ? ORDER BY number"
    return float(sum(rho for (rho,) in database.execute(query, (client_id, neighbours))))


def _check_left(before: float, rho: float, budget: Budget, client_id: str) -> None:
    if (before + rho) * _ROUNDING > budget.rho:
        raise BudgetError(_CODE, _refusal(before, rho, budget), client_id=client_id)


def _refusal(before: float, rho: float, budget: Budget) -> str:
    spent, asked, after = (epsilon_of(loss, budget.delta) for loss in (before, rho, before + rho))
    return (
        f"epsilon {spent:.3g} of {budget.epsilon:g} by {budget.neighbours} at delta "
        f"{budget.delta:g} is spent, and this release of {asked:.3g} would make it {after:.3g}: "
        "ask for a smaller epsilon, or let who owns the data raise the budget"
    )
