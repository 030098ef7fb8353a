"""Rows of results: one file of JSON Lines, to which a run that goes on appends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fedcof.errors import ResultsFormatError
from fedcof.files import write_atomically

Histogram = dict[str, dict[str, int]]
"""Samples of every class, by client and the name of the class."""


@dataclass(frozen=True, eq=False)
class Row:
    """One experiment's setting and seed, and what was measured.

    Parameters
    ----------
    experiment : str
        The experiment's name.
    seed : int
    setting : mapping of str to bool, int, float, str or None
        The columns that name the setting. Rows of one experiment, seed and setting are of one run.
    measured : mapping
        Empty before the run.
    """

    experiment: str
    seed: int
    setting: Mapping[str, Any]
    measured: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What names the run, as text."""
        return json.dumps([self.experiment, self.seed, self.setting], sort_keys=True)

    @property
    def short_rounds(self) -> int | None:
        """The rounds of a short run, None for a row of the whole experiment."""
        rounds: int | None = self.setting.get("short_rounds")
        return rounds


class Skipped(NamedTuple):
    """Settings of an experiment, or of its short run, that were not run, and why."""

    experiment: str
    short_rounds: int | None
    dataset: str
    backbone: str
    reason: str


def partition_name(setting: Mapping[str, Any]) -> str:
    """Return the name of a setting's partition, whatever its seed."""
    columns = ("dataset", "partition", "column", "clients", "alpha")
    return " ".join(f"{setting[name]}" for name in columns if setting.get(name) is not None)


class Results:
    """A folder's ``results.jsonl``, ``skipped.json`` and ``clients.json``.

    ``skipped.json`` lists what could not be run, ``clients.json`` the samples of every class that
    the first clients of every partition hold.

    Parameters
    ----------
    folder : Path
        Made where it is missing. A last line that a stopped run left half-written is cut off.

    Raises
    ------
    ResultsFormatError
        If the folder holds results in the format of another version, or a line is no row.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "results.jsonl"
        self._skipped_path = folder / "skipped.json"
        self._clients_path = folder / "clients.json"
        self._rows: dict[str, Row] = {}
        self.skipped()  # a file of another version is refused before anything is run
        if self.path.exists():
            whole = self.path.read_bytes().rpartition(b"\n")[0]
            if whole:
                whole += b"\n"
            for number, line in enumerate(whole.splitlines(), start=1):
                self._keep(line, number)
            if len(whole) != self.path.stat().st_size:
                with self.path.open("r+b") as file:
                    file.truncate(len(whole))

    def _keep(self, line: bytes, number: int) -> None:
        try:
            saved = json.loads(line)
        except ValueError:
            saved = None
        if not isinstance(saved, dict):
            raise ResultsFormatError(
                f"{self.path}, line {number}, is no row of results: restore the line, or delete it "
                "to run its setting again"
            )
        if saved.keys() != {"experiment", "seed", "setting", "measured"}:
            version = saved.get("versions", {}).get("fedcof", "an unknown version")
            raise self._other_format(f"{self.path.name}, line {number},", version)
        row = Row(**saved)
        self._rows[row.key] = row

    def _other_format(self, place: str, version: str) -> ResultsFormatError:
        return ResultsFormatError(
            f"{self.path.parent}: {place} was written by fedcof {version}, in a format that this "
            "version does not read: take another folder, or delete this one and run again"
        )

    def __contains__(self, row: Row) -> bool:
        return row.key in self._rows

    def rows(self, experiment: str | None = None, short_rounds: int | None = None) -> list[Row]:
        """Return all rows, or those of an experiment: of the whole, or of a short run."""
        rows = list(self._rows.values())
        if experiment is None:
            return rows
        wanted = experiment, short_rounds
        return [row for row in rows if (row.experiment, row.short_rounds) == wanted]

    def skipped(
        self, experiment: str | None = None, short_rounds: int | None = None
    ) -> list[Skipped]:
        """Return what could not be run in the last run of all experiments, or of one."""
        saved: Any = _read(self._skipped_path) or []
        if isinstance(saved, dict):
            raise self._other_format(self._skipped_path.name, "0.1.0")
        entries = [Skipped(**entry) for entry in saved]
        if experiment is None:
            return entries
        wanted = experiment, short_rounds
        return [entry for entry in entries if (entry.experiment, entry.short_rounds) == wanted]

    def skip(self, experiment: str, short_rounds: int | None, entries: Sequence[Skipped]) -> None:
        """Keep what could not be run in place of what the last run of the experiment left."""
        replaced = self.skipped(experiment, short_rounds)
        others = [entry for entry in self.skipped() if entry not in replaced]
        _write(self._skipped_path, [entry._asdict() for entry in (*others, *entries)])

    def histograms(self) -> dict[str, Histogram]:
        """Return the class counts of the first clients of every partition, by its name."""
        histograms: dict[str, Histogram] = _read(self._clients_path) or {}
        return histograms

    def keep_histogram(self, partition: str, counts: Histogram) -> None:
        """Keep the class counts of the first clients of a partition."""
        _write(self._clients_path, self.histograms() | {partition: counts})

    def checkpoint(self, row: Row) -> Path:
        """Return the file that keeps the training of a row which is not finished."""
        name = hashlib.sha256(row.key.encode()).hexdigest()[:16]
        return self.path.with_name(f"unfinished-{name}.safetensors")

    def append(self, row: Row) -> None:
        """Add a row to the file, which needs no checkpoint any more."""
        self.checkpoint(row).unlink(missing_ok=True)
        append_row(self.path, row)
        self.add(row)

    def add(self, row: Row) -> None:
        """Add a row that another process has appended to the file."""
        self._rows[row.key] = row


def append_row(path: Path, row: Row) -> None:
    """Append a row to a file of results, to which other processes may append at the same time."""
    line = (json.dumps(asdict(row)) + "\n").encode()
    with path.open("ab", buffering=0) as file:
        file.write(line)  # one call of the system: lines of two processes never mix


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _write(path: Path, content: object) -> None:
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
