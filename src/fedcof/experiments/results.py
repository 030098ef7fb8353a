"""Rows of results: one tidy file of JSON Lines, to which a run that goes on appends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedcof.experiments.experiment import METRICS

Row = dict[str, Any]
"""One seed, method and setting: the setting's columns, then what was measured."""

MEASURED = (
    *METRICS,
    "rounds",
    "clients_seen",
    "samples",
    "dim",
    "seconds",
    "fingerprint",
    "versions",
)
"""The columns that do not name a setting."""


def key(row: Mapping[str, Any]) -> str:
    """Return what two rows of the same run have in common."""
    setting = {name: value for name, value in row.items() if name not in MEASURED}
    return json.dumps(setting, sort_keys=True)


class Results:
    """A folder's ``results.jsonl``.

    Parameters
    ----------
    folder : Path
        Made where it is missing. A last line that a stopped run left half-written is cut off.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "results.jsonl"
        self._rows: dict[str, Row] = {}
        if self.path.exists():
            whole = self.path.read_bytes().rpartition(b"\n")[0]
            if whole:
                whole += b"\n"
            if len(whole) != self.path.stat().st_size:
                with self.path.open("r+b") as file:
                    file.truncate(len(whole))
            self._keep(map(json.loads, whole.splitlines()))

    def _keep(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._rows[key(row)] = row

    def __contains__(self, setting: Mapping[str, Any]) -> bool:
        return key(setting) in self._rows

    def rows(self, experiment: str | None = None) -> list[Row]:
        """Return the rows of an experiment, or all."""
        rows = self._rows.values()
        return [row for row in rows if experiment in (None, row["experiment"])]

    def append(self, row: Row) -> None:
        """Add a row."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self._keep([row])
