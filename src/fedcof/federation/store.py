"""The summaries that arrived, in a file that survives a kill at any moment.

One SQLite database a run: write-ahead log, one transaction a summary, so a summary is there whole
or not at all. It also knows for which job it was made, and which clients each round asked.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from fedcof.errors import FedCOFError
from fedcof.summaries import Summary, from_bytes

SCHEMA = 1
"""Version of the tables; another one is refused."""

_TABLES = """
CREATE TABLE job (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE summaries (
    client_id TEXT PRIMARY KEY,
    sha256 BLOB NOT NULL,
    dim INTEGER NOT NULL,
    labels TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE TABLE rounds (round INTEGER NOT NULL, client_id TEXT PRIMARY KEY) WITHOUT ROWID;
"""


class RunFolderError(FedCOFError, ValueError):
    """A run folder belongs to another job, or to another version of fedcof."""


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
    """

    def __init__(self, path: Path, job: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._database = sqlite3.connect(path, timeout=60)
        try:
            # Complete after a kill of the process. After a loss of power the last summaries may be
            # missing, and are asked for again.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._open({key: json.dumps(value) for key, value in job.items()})
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
                f"{self._path} has schema {schema}, this fedcof reads {SCHEMA}; use another folder"
            )
        stored = dict(self._database.execute("SELECT key, value FROM job"))
        for key in sorted(stored.keys() | job.keys()):
            if stored.get(key) != job.get(key):
                raise RunFolderError(
                    f"{self._path.parent} holds summaries made with {key} = {stored.get(key)}, "
                    f"this run has {key} = {job.get(key)}; use another run folder, or the same "
                    "setting"
                )

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
        digest = hashlib.sha256(data).digest()
        with self._database:
            self._database.execute(
                "INSERT OR IGNORE INTO summaries VALUES (?, ?, ?, ?, ?)",
                (client_id, digest, summary.dim, summary.classes.dtype.kind, data),
            )
            (kept,) = self._database.execute(
                "SELECT sha256 FROM summaries WHERE client_id = ?", (client_id,)
            ).fetchone()
        return bool(kept == digest)

    def holds(self, client_id: str, data: bytes) -> bool:
        """Return whether this is the summary that is kept of a client."""
        row = self._database.execute(
            "SELECT sha256 FROM summaries WHERE client_id = ?", (client_id,)
        ).fetchone()
        return row is not None and bool(row[0] == hashlib.sha256(data).digest())

    def client_ids(self) -> set[str]:
        """Return the clients whose summaries are here."""
        return {row[0] for row in self._database.execute("SELECT client_id FROM summaries")}

    def summaries(self) -> Iterator[Summary]:
        """Yield every summary that counts, in the order of the clients' ids."""
        misfits = self.misfits()
        query = "SELECT client_id, data FROM summaries ORDER BY client_id"
        with closing(self._database.execute(query)) as rows:
            for client_id, data in rows:
                if client_id not in misfits:
                    yield from_bytes(data)

    def misfits(self) -> dict[str, str]:
        """Return the clients whose summaries do not fit those of most others, with the reason.

        Two fit if their features have one length and their labels are of one type. No client can
        force its own on the others by being the first.
        """
        rows = self._database.execute(
            "SELECT client_id, dim, labels FROM summaries ORDER BY client_id"
        ).fetchall()
        votes = Counter((dim, labels) for _, dim, labels in rows)
        if len(votes) < 2:
            return {}
        (dim, labels), clients = votes.most_common(1)[0]
        most = f"features of length {dim} and {_WORDS[labels]} for labels"
        return {
            name: f"features of length {its_dim} and {_WORDS[its_labels]} for labels; {clients} of "
            f"{len(rows)} clients have {most}"
            for name, its_dim, its_labels in rows
            if (its_dim, its_labels) != (dim, labels)
        }

    def drop(self, client_ids: Iterable[str]) -> None:
        """Forget the summaries of some clients."""
        with self._database:
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


_WORDS = {"U": "strings", "i": "numbers"}
