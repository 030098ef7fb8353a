"""The summaries that arrived, in a file that survives a kill at any moment.

One SQLite database a run: write-ahead log, one transaction a summary, so a summary is there whole
or not at all. It also holds the settings that the summaries depend on, and which clients each round
asked.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from fedcof import __version__
from fedcof.errors import RunFolderError, SummaryError
from fedcof.summaries import Summary, from_bytes

SCHEMA = 2
"""Version of the tables; another one is refused."""

_WRITERS = {1: "fedcof 0.1.0"}
"""Who wrote the older versions."""

LARGEST_SCALE = 1e4
"""A client whose features are more than 10,000 times the median client's is set aside.

Above this factor, rounding leaves nothing of the other clients in a Gram or scatter matrix. Honest
clients of one backbone are far below it. A dishonest client below it still changes the head: this
limit is for broken clients.
"""

_TABLES = """
CREATE TABLE job (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE summaries (client_id TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE rounds (round INTEGER NOT NULL, client_id TEXT PRIMARY KEY) WITHOUT ROWID;
"""


class SummaryStore:
    """The accepted summaries of a run, each client's once.

    Parameters
    ----------
    path : path
        The database; made, with its folder, where there is none.
    job : mapping of str to number or str
        What the summaries depend on. A database made for another job is refused.

    Raises
    ------
    RunFolderError
        If the database was made for another job or by another version of fedcof.

    Attributes
    ----------
    unreadable : dict of str to str
        Clients whose summary in the database is damaged, with the reason. It is replaced when the
        client sends its summary again.
    """

    def __init__(self, path: Path, job: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._summaries: dict[str, Summary] = {}
        self.unreadable: dict[str, str] = {}
        self._database = sqlite3.connect(path, timeout=60)
        try:
            # Complete after a kill of the process. After a loss of power the last summaries may be
            # missing, and are asked for again.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._open({key: json.dumps(value, sort_keys=True) for key, value in job.items()})
            self._read()
        except sqlite3.DatabaseError as error:
            self.close()
            raise RunFolderError(f"{path} cannot be read: {error}") from None
        except BaseException:
            self.close()
            raise

    def _open(self, job: Mapping[str, str]) -> None:
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            (schema,) = self._database.execute("PRAGMA user_version").fetchone()
            if schema == 0:
                for statement in _TABLES.split(";"):
                    self._database.execute(statement)
                self._database.executemany("INSERT INTO job VALUES (?, ?)", job.items())
                self._database.execute(f"PRAGMA user_version = {SCHEMA}")
                return
        if schema != SCHEMA:
            raise RunFolderError(
                f"{self._path} was written by {_WRITERS.get(schema, 'a later version')}; this "
                f"version of fedcof, {__version__}, cannot go on from it: give another run-folder, "
                "or the version that wrote it"
            )
        stored = dict(self._database.execute("SELECT key, value FROM job"))
        for key in sorted(stored.keys() | job.keys()):
            if stored.get(key) != job.get(key):
                raise RunFolderError(
                    f"{self._path.parent} holds summaries made with {key} = {stored.get(key)}, "
                    f"this run has {key} = {job.get(key)}; give another run-folder, or the same "
                    "setting"
                )

    def _read(self) -> None:
        for client_id, data in self._database.execute("SELECT client_id, data FROM summaries"):
            try:
                self._summaries[client_id] = from_bytes(data)
            except SummaryError as error:
                self.unreadable[client_id] = error.message

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def add(self, client_id: str, summary: Summary, data: bytes) -> bool:
        """Keep a client's summary; return whether it is now the one that counts.

        It is not where another one of this client came before. The same one again changes nothing.
        """
        with self._database:
            if self.unreadable.pop(client_id, None) is not None:
                self._delete([client_id])
            self._database.execute(
                "INSERT OR IGNORE INTO summaries VALUES (?, ?)", (client_id, data)
            )
        kept = self._data(client_id)
        self._summaries[client_id] = summary if kept == data else from_bytes(kept)
        return kept == data

    def holds(self, client_id: str, data: bytes) -> bool:
        """Return whether this is the summary that is kept of a client."""
        return client_id in self._summaries and self._data(client_id) == data

    def _data(self, client_id: str) -> bytes:
        query = "SELECT data FROM summaries WHERE client_id = ?"
        (data,) = self._database.execute(query, (client_id,)).fetchone()
        return bytes(data)

    def client_ids(self) -> set[str]:
        """Return the clients whose summaries are here."""
        return set(self._summaries)

    def sizes(self) -> dict[str, int]:
        """Return how many bytes the summary of every client took on the wire."""
        return dict(self._database.execute("SELECT client_id, LENGTH(data) FROM summaries"))

    def summaries(self) -> list[Summary]:
        """Return every summary that counts, in the order of the clients' ids."""
        misfits = self.misfits()
        return [kept for name, kept in sorted(self._summaries.items()) if name not in misfits]

    def misfits(self) -> dict[str, str]:
        """Return the clients whose summaries do not fit those of most others, with the reason.

        Two fit if their axes are equally long, their labels are of one type, their origins do not
        contradict each other, and neither's features are larger than `LARGEST_SCALE` times the
        median client's. The usual value is that of most clients, whoever came first.
        """
        fitting = dict(sorted(self._summaries.items()))
        misfits: dict[str, str] = {}
        origins = sorted({name for kept in fitting.values() for name in kept.origin})
        traits: list[Callable[[Summary], str]] = [_shape, *(partial(_made_by, n) for n in origins)]
        for describe in traits:
            described = {c: text for c, kept in fitting.items() if (text := describe(kept))}
            for usual, clients in Counter(described.values()).most_common(1):
                for client_id, text in described.items():
                    if text != usual:
                        del fitting[client_id]
                        misfits[client_id] = (
                            f"{text}; {clients} of {len(described)} clients have {usual}"
                        )
        scales = {client_id: kept.scale for client_id, kept in fitting.items()}
        median = statistics.median(scales.values()) if scales else 0.0
        return misfits | {
            client_id: f"features as large as {scale:.3g}; half of the clients have at most "
            f"{median:.3g}"
            for client_id, scale in scales.items()
            if scale > LARGEST_SCALE * median > 0
        }

    def drop(self, client_ids: Collection[str]) -> None:
        """Forget the summaries of some clients."""
        with self._database:
            self._delete(client_ids)
        for client_id in client_ids:
            del self._summaries[client_id]

    def _delete(self, client_ids: Iterable[str]) -> None:
        self._database.executemany(
            "DELETE FROM summaries WHERE client_id = ?", [(name,) for name in client_ids]
        )

    def rounds(self) -> list[set[str]]:
        """Return the clients that every round so far asked."""
        rounds: list[set[str]] = []
        for number, client_id in self._database.execute(
            "SELECT round, client_id FROM rounds ORDER BY round"
        ):
            if number > len(rounds):
                rounds.append(set())
            rounds[-1].add(client_id)
        return rounds

    def open_round(self, number: int, client_ids: Iterable[str]) -> None:
        """Note which clients a round asks, numbered from 1."""
        with self._database:
            self._database.executemany(
                "INSERT INTO rounds VALUES (?, ?)", [(number, name) for name in client_ids]
            )


def _shape(summary: Summary) -> str:
    labels = "names" if summary.classes.dtype.kind == "U" else "numbers"
    others = summary.axis_lengths.items() - {("dim", summary.dim)}
    axes = "".join(f", {axis} {length}" for axis, length in sorted(others))
    return f"features of length {summary.dim} and {labels} for labels{axes}"


def _made_by(name: str, summary: Summary) -> str:
    """Return a fingerprint of the summary's origin with its name; empty where it has none."""
    return f"{name} {summary.origin[name]}" if name in summary.origin else ""
