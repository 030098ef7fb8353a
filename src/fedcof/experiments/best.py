"""A method at the value of a setting that is best on the test set: what a chooser can hope for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fedcof.experiments.clients import Clients
from fedcof.experiments.experiment import Execution
from fedcof.experiments.one_round import OneRound


@dataclass(frozen=True)
class Best(OneRound):
    """One round, solved with several values of a setting of the server.

    The accuracy is that of the best on the test set, which nobody has who chooses.

    Parameters
    ----------
    setting : str
        A hyperparameter that does not change what clients send.
    values : tuple of float
    """

    setting: str = ""
    values: tuple[float, ...] = ()

    def columns(self) -> dict[str, Any]:
        """Return the columns of one round, with what was chosen from in place of the setting."""
        columns = super().columns()
        columns.pop(self.setting)
        values = ", ".join(f"{value:g}" for value in self.values)
        return columns | {"best": self.setting, "best_of": values}

    def measure(self, clients: Clients, execution: Execution) -> dict[str, Any]:
        """Return what one round measures with the best value, and this value."""
        runs = [
            OneRound(
                replace(self.method, **{self.setting: value}), self.transform, self.coding
            ).measure(clients, execution)
            | {"chosen": value}
            for value in self.values
        ]
        return max(runs, key=lambda measured: measured["accuracy"])
