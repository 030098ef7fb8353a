"""Rows of results: one tidy file of JSON Lines, to which a run that goes on appends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedcof.experiments.experiment import METRICS
from fedcof.files import write_atomically

Row = dict[str, Any]
"""One seed, method and setting: the setting's columns, then what was measured."""

MEASURED = (
    *METRICS,
    "rounds",
    "clients_seen",
    "samples",
    "dim",
    "fingerprint",
    "versions",
)
"""The columns that do not name a setting."""


Histogram = dict[str, dict[str, int]]
"""Samples of every class, by client."""


class Skipped(NamedTuple):
    """Settings that were not run, and why."""

    dataset: str
    backbone: str
    reason: str


def partition_name(row: Mapping[str, Any]) -> str:
    """Return the name of a row's partition, whatever its seed."""
    columns = ("dataset", "column", "clients", "alpha")
    return " ".join(f"{row[column]}" for column in columns if row.get(column) is not None)


def key(row: Mapping[str, Any]) -> str:
    """Return what two rows of the same run have in common."""
    setting = {name: value for name, value in row.items() if name not in MEASURED}
    return json.dumps(setting, sort_keys=True)


class Results:
    """A folder's ``results.jsonl``, ``skipped.json`` and ``clients.json``.

    The second says what could not be run, the third what the first clients of every partition hold.

    Parameters
    ----------
    folder : Path
        Made where it is missing. A last line that a stopped run left half-written is cut off.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "results.jsonl"
        self._skipped_path = folder / "skipped.json"
        self._clients_path = folder / "clients.json"
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

    def skipped(self) -> dict[str, list[Skipped]]:
        """Return what could not be run in the last run of every experiment."""
        saved = _read(self._skipped_path)
        return {name: [Skipped(*entry) for entry in entries] for name, entries in saved.items()}

    def skip(self, experiment: str, entries: list[Skipped]) -> None:
        """Keep what could not be run in place of what the last run left."""
        _write(self._skipped_path, self.skipped() | {experiment: entries})

    def histograms(self) -> dict[str, Histogram]:
        """Return the class counts of the first clients of every partition, by its name."""
        return _read(self._clients_path)

    def keep_histogram(self, partition: str, counts: Histogram) -> None:
        """Keep the class counts of the first clients of a partition."""
        _write(self._clients_path, self.histograms() | {partition: counts})

    def checkpoint(self, setting: Mapping[str, Any]) -> Path:
        """Return the file that keeps the training of a row which is not finished."""
        name = hashlib.sha256(key(setting).encode()).hexdigest()[:16]
        return self.path.with_name(f"unfinished-{name}.safetensors")

    def append(self, row: Row) -> None:
        """Add a row, which needs no checkpoint any more."""
        self.checkpoint(row).unlink(missing_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self._keep([row])


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _write(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
