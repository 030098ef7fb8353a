"""The summaries that arrived, in a file that survives a kill at any moment.

One SQLite database a run: write-ahead log, one transaction an answer of a SuperNode, so a summary
is there whole or not at all. It also holds the settings that the summaries depend on, those that
the head was made with, which clients each round asked, and which have withdrawn: what they sent is
erased from the file, and nothing of theirs is kept again.

In memory is what `fedcof.screening.Site` keeps of every summary, with which they are compared. The
statistics are there, too, while all of them take at most `IN_MEMORY` bytes, so that none is decoded
twice; of more, all stay in the file, and `summaries` decodes one after the other.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Self

from numpy.typing import NDArray

from fedcof import __version__
from fedcof.errors import RunFolderError, SummaryError
from fedcof.scale import Fragment, Read
from fedcof.screening import (
    Site,
    misfits,
    numbers_compared,
    screen_sites,
    with_fewer_numbers,
)
from fedcof.summaries import Summary, from_bytes
from fedcof.summaries.together import each_from_bytes, from_bytes_together

SCHEMA = 3
"""Version of the tables; another one is refused."""

_WRITERS = {0: "another program", 1: "fedcof 0.1.0", 2: "fedcof 0.2.0 before its release"}
"""Who wrote the older versions."""

IN_MEMORY = 256 << 20
"""Bytes of summaries that are decoded together; of more, the head is solved as a stream."""

_OBJECT = 4 << 10
"""Bytes that a summary takes in memory besides its statistic."""

_READ_AHEAD = 4 << 20
"""Bytes of summaries that are read at once."""

_FRAGMENT = 16 << 20
"""Bytes of summaries in a fragment: many, so that products are fast and partial results few."""

_PAGE = 64 << 10
"""Bytes of a page of the database: a summary of many kilobytes is written in one piece, so that to
keep it takes half the time that it takes in pages of 4 KiB."""

_SQL = sqlite3.SQLITE_ERROR
"""The code of a statement that does not go with the tables that are there."""

_TABLES = """
CREATE TABLE job (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE summaries (client_id TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE rounds (round INTEGER NOT NULL, client_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE withdrawn (client_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE owners (client_id TEXT PRIMARY KEY, key TEXT NOT NULL) WITHOUT ROWID;
"""


class SummaryGoneError(RunFolderError):
    """A summary has gone from the file while it was read.

    Parameters
    ----------
    client_id : str
        Whose it was.
    """

    def __init__(self, client_id: str) -> None:
        super().__init__(
            f"the summary of client {client_id!r} has gone from the run folder while it was read: "
            "the client has withdrawn, or another run has begun there; run again"
        )
        self.client_id = client_id


class SummaryStore:
    """The accepted summaries of a run, each client's once.

    Parameters
    ----------
    path : path
        The database; made, with its folder, where there is none.
    job : mapping of str to number or str, optional
        What the summaries depend on. A database made for another job is refused. Without it, the
        database must be there, and is that of any job.
    accept : collection of str, default empty
        Clients that count however odd they are beside the others.

    Raises
    ------
    RunFolderError
        If the database was made for another job or by another version of fedcof, or is not there.

    Attributes
    ----------
    unreadable : dict of str to str
        Clients whose summary in the database is damaged, with the reason. It is replaced when the
        client sends its summary again.
    """

    def __init__(
        self,
        path: Path,
        job: Mapping[str, Any] | None = None,
        accept: Collection[str] = frozenset(),
    ) -> None:
        if job is None and not path.exists():
            raise RunFolderError(f"{path.parent} is no run folder: there is no {path.name}")
        self._path = path
        self._accept = accept
        self._reading = Lock()
        self._sites: dict[str, Site] = {}
        self._rows = 0
        self._numbers = numbers_compared(0)
        self._sizes: dict[str, int] = {}
        self._decoded: dict[str, Summary] | None = {}
        self._room = IN_MEMORY
        self._judged: tuple[dict[str, str], dict[str, str]] | None = None
        self.unreadable: dict[str, str] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            self._database = sqlite3.connect(path, timeout=60, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise RunFolderError(
                f"{path.parent} cannot be used as a run folder: {_reason(error)}; give another "
                "run-folder, or let this user write there"
            ) from None
        try:
            # Complete after a kill of the process. After a loss of power the last summaries may be
            # missing, and are asked for again.
            self._database.execute(f"PRAGMA page_size = {_PAGE}")  # of a new one
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.execute("PRAGMA secure_delete = ON")
            self._open(None if job is None else _as_texts(job))
            self._read()
            self.rounds(), self.withdrawn(), self.settings()  # so that a damaged one is told now
        except BaseException as error:
            self.close()
            if isinstance(error, RunFolderError) or not isinstance(error, Exception):
                raise
            if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != _SQL:
                raise RunFolderError(f"{path} {_unwritten(error)}") from None
            raise RunFolderError(f"{path} cannot be read, it is damaged: {error}") from None

    def _open(self, job: Mapping[str, str] | None) -> None:
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            (schema,) = self._database.execute("PRAGMA user_version").fetchone()
            if schema == 0 and job is not None:
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
        if job is None:
            return
        kept = dict(self._database.execute("SELECT key, value FROM job"))
        if kept != job:
            key, stored, given = _first_difference(kept, job)
            raise RunFolderError(
                f"{self._path.parent} holds summaries made with {key} = {stored}, this run has "
                f"{key} = {given}; give another run-folder, or the same setting"
            )

    def _read(self) -> None:
        some, held = dict[str, bytes](), 0
        for client_id, data in self._database.execute("SELECT client_id, data FROM summaries"):
            if not isinstance(client_id, str) or not isinstance(data, bytes):
                raise TypeError("a client without a name, or a summary that is none")
            some[client_id] = data
            held += len(data)
            if held >= _READ_AHEAD:
                self._note_all(some)
                some, held = {}, 0
        self._note_all(some)

    def _note_all(self, read: Mapping[str, bytes]) -> None:
        whole: dict[str, tuple[Summary, bytes]] = {}
        for client_id, summary in each_from_bytes(read).items():
            if isinstance(summary, SummaryError):
                self.unreadable[client_id] = summary.message
            else:
                whole[client_id] = summary, read[client_id]
        self._note(whole)

    def _note(self, read: Mapping[str, tuple[Summary, bytes]]) -> None:
        """Keep in memory what is kept there; the more rows there are, the less of each."""
        for client_id in read.keys() & self._sites.keys():
            self.forget(client_id)
        self._judged = None
        self._rows += sum(len(summary.classes) for summary, _ in read.values())
        if (fewer := numbers_compared(self._rows)) < self._numbers:
            self._numbers = fewer
            kept = with_fewer_numbers(list(self._sites.values()), fewer)
            self._sites = dict(zip(self._sites, kept, strict=True))
        sites = Site.of_each([summary for summary, _ in read.values()], self._numbers)
        self._sites.update(zip(read, sites, strict=True))
        for client_id, (summary, data) in read.items():
            self._sizes[client_id] = len(data)
            if self._decoded is not None:
                self._decoded[client_id] = summary
                self._room -= _bytes_decoded(summary)
                if self._room < 0:
                    self._decoded = None

    def forget(self, client_id: str) -> None:
        """Count a summary no more that has gone from the file, by another process."""
        self._judged = None
        self._rows -= len(self._sites[client_id].classes)
        del self._sites[client_id], self._sizes[client_id]
        if self._decoded is not None:
            del self._decoded[client_id]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write all of the block or nothing; what was written before stays either way."""
        try:
            with self._database:
                yield
        except sqlite3.OperationalError as error:
            raise RunFolderError(f"{self._path} {_unwritten(error)}") from None

    def _select(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        try:
            with self._reading:  # of several threads, where a head is solved as a stream
                return self._database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise RunFolderError(f"{self._path} cannot be read: {error}") from None

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def add(self, arrived: Mapping[str, tuple[Summary, bytes]]) -> set[str]:
        """Keep clients' summaries, all or none; return whose are now the ones that count.

        One is not where another one of this client came before, or the client has withdrawn. The
        same one again changes nothing.
        """
        new: dict[str, tuple[Summary, bytes]] = {}
        with self._transaction():
            self._delete(damaged := arrived.keys() & self.unreadable.keys())
            for client_id, (summary, data) in arrived.items():
                inserted = self._database.execute(
                    "INSERT OR IGNORE INTO summaries SELECT ?1, ?2 "
                    "WHERE NOT EXISTS (SELECT 1 FROM withdrawn WHERE client_id = ?1)",
                    (client_id, data),
                )
                if inserted.rowcount:
                    new[client_id] = summary, data
        for client_id in damaged:
            del self.unreadable[client_id]
        self._note(new)
        return new.keys() | {
            client_id
            for client_id in arrived.keys() - new.keys()
            if self._is_kept(client_id, *arrived[client_id])
        }

    def _is_kept(self, client_id: str, summary: Summary, data: bytes) -> bool:
        """Return whether this is what is kept of a client, be it by another process; note that."""
        kept = self._data(client_id)
        if kept is None:
            return False
        self._note({client_id: (summary if kept == data else from_bytes(kept), kept)})
        return kept == data

    def holds(self, client_id: str, data: bytes) -> bool:
        """Return whether this is the summary that is kept of a client."""
        return client_id in self._sites and self._data(client_id) == data

    def _data(self, client_id: str) -> bytes | None:
        found = self._select("SELECT data FROM summaries WHERE client_id = ?", client_id)
        return bytes(found[0][0]) if found else None

    def client_ids(self) -> set[str]:
        """Return the clients whose summaries are here."""
        return self._sites.keys() - self.withdrawn()

    def sizes(self) -> dict[str, int]:
        """Return how many bytes the summary of every client took on the wire."""
        return dict(self._select("SELECT client_id, LENGTH(data) FROM summaries"))

    def summaries(self) -> KeptSummaries:
        """Return every summary that counts, in the order of the clients' ids, as a stream."""
        left_out = self.misfits()
        return self._kept(name for name in self._sites if name not in left_out)

    def _kept(self, names: Iterable[str]) -> KeptSummaries:
        sites = {name: self._sites[name] for name in sorted(names)}
        decoded = None if self._decoded is None else dict(self._decoded)
        return KeptSummaries(self._select, sites, dict(self._sizes), decoded)

    def sites(self) -> list[Site]:
        """Return what is known of every summary that counts, in the order of the clients' ids."""
        left_out = self.misfits()
        return [site for name, site in sorted(self._sites.items()) if name not in left_out]

    def misfits(self) -> dict[str, str]:
        """Return the clients whose summaries do not go with those of the others, with the reason.

        Either they cannot be put together with those of most, or they are so odd beside them that
        they are refused, unless they are accepted.
        """
        return self._screened()[0]

    def set_aside(self, reasons: Mapping[str, str]) -> None:
        """Leave some more clients out, with the reason, until a summary comes or goes."""
        refused, odd = self._screened()
        self._judged = {**refused, **reasons}, {k: v for k, v in odd.items() if k not in reasons}

    def odd(self) -> dict[str, str]:
        """Return the clients that count though they are odd beside the others, with the reason."""
        return self._screened()[1]

    def _screened(self) -> tuple[dict[str, str], dict[str, str]]:
        self.withdrawn()
        while self._judged is None:
            try:
                self._judged = self._judge()
            except SummaryGoneError as error:
                self.forget(error.client_id)
        return self._judged

    def _judge(self) -> tuple[dict[str, str], dict[str, str]]:
        refused = misfits(dict(sorted(self._sites.items())))
        names = sorted(self._sites.keys() - refused.keys())
        odd: dict[str, str] = {}
        for place, found in screen_sites(self._compared(names)):
            name = names[place]
            group = refused if found.refused and name not in self._accept else odd
            reason = f"{found.check} {found.factor:.3g}: {found.reason}"
            group[name] = f"{group[name]}; {reason}" if name in group else reason
        return refused, odd

    def _compared(self, names: Sequence[str]) -> list[Site]:
        """Return what is known of some summaries, with as many numbers as are compared of those.

        Of all there may be fewer numbers in memory; the file has them.
        """
        sites = [self._sites[name] for name in names]
        wanted = numbers_compared(sum(len(site.classes) for site in sites))
        if sites and min(wanted, sites[0].dim) > self._numbers:
            return [Site.of_each([summary], wanted)[0] for summary in self._kept(names)]
        return sites

    def drop(self, client_ids: Collection[str]) -> None:
        """Forget the summaries of some clients."""
        with self._transaction():
            self._delete(client_ids)
        for client_id in list(client_ids):
            self.forget(client_id)

    def withdraw(self, client_ids: Collection[str]) -> None:
        """Erase what clients sent from the file, and keep nothing of theirs from now on.

        Raises
        ------
        RunFolderError
            If another process is in the way of erasing; nothing of theirs counts any more, but
            their bytes may still be in the file.
        """
        with self._transaction():
            self._database.executemany(
                "INSERT OR IGNORE INTO withdrawn VALUES (?)", [(name,) for name in client_ids]
            )
            self._delete(client_ids)
        self.withdrawn()
        self._erase()

    def _erase(self) -> None:
        """Leave no byte of what was deleted, neither in the file nor in its log."""
        try:
            self._database.execute("VACUUM")
            query = "PRAGMA wal_checkpoint(TRUNCATE)"
            (busy, *_) = self._database.execute(query).fetchone()
        except sqlite3.OperationalError:
            busy = True
        if busy:
            raise RunFolderError(
                f"{self._path} is in use by another process, so what was deleted may still be in "
                "its file: do this again once that process has ended"
            )

    def readmit(self, client_ids: Iterable[str]) -> None:
        """Let clients that have withdrawn come back; what they send is kept again."""
        with self._transaction():
            self._database.executemany(
                "DELETE FROM withdrawn WHERE client_id = ?", [(name,) for name in client_ids]
            )

    def withdrawn(self) -> set[str]:
        """Return the clients that have withdrawn, be it by another process."""
        names = {name for (name,) in self._select("SELECT client_id FROM withdrawn")}
        for name in names & self._sites.keys():
            self.forget(name)
        for name in names & self.unreadable.keys():
            del self.unreadable[name]
        return names

    def keep_settings(self, settings: Mapping[str, Any]) -> None:
        """Keep what the head is made with, in place of what it was made with before."""
        with self._transaction():
            self._database.execute("DELETE FROM settings")
            self._database.executemany(
                "INSERT INTO settings VALUES (?, ?)", _as_texts(settings).items()
            )

    def settings(self) -> dict[str, Any]:
        """Return what `keep_settings` kept last."""
        rows = self._select("SELECT key, value FROM settings")
        return {key: json.loads(value) for key, value in rows}

    def _delete(self, client_ids: Iterable[str]) -> None:
        self._database.executemany(
            "DELETE FROM summaries WHERE client_id = ?", [(name,) for name in client_ids]
        )

    def bind(self, client_ids: Collection[str], key: str) -> dict[str, str]:
        """Return the key that every client belongs to: this one, if it belongs to none yet."""
        with self._transaction():
            self._database.executemany(
                "INSERT OR IGNORE INTO owners VALUES (?, ?)", [(name, key) for name in client_ids]
            )
        query = "SELECT client_id, key FROM owners WHERE client_id BETWEEN ? AND ?"
        owners = dict(self._select(query, min(client_ids), max(client_ids))) if client_ids else {}
        return {name: owners[name] for name in client_ids}

    def rounds(self) -> list[set[str]]:
        """Return the clients that every round so far asked."""
        rounds: list[set[str]] = []
        for number, client_id in self._select("SELECT round, client_id FROM rounds ORDER BY round"):
            if number > len(rounds):
                rounds.append(set())
            rounds[-1].add(client_id)
        return rounds

    def open_round(self, number: int, client_ids: Iterable[str]) -> None:
        """Note which clients a round asks, numbered from 1."""
        with self._transaction():
            self._database.executemany(
                "INSERT INTO rounds VALUES (?, ?)", [(number, name) for name in client_ids]
            )


class KeptSummaries:
    """Summaries in the file, as often as it is iterated.

    They are decoded one after the other then, unless all are decoded before.

    Parameters
    ----------
    select : callable
        Reads rows of the database.
    sites : mapping of str to Site
        What is known of every client's summary, the clients in ascending order.
    sizes : mapping of str to int
        The bytes of them.
    decoded : mapping of str to Summary, optional
        All of them, where they are in memory.

    Raises
    ------
    SummaryGoneError
        While it is iterated, if one has gone since.
    """

    def __init__(
        self,
        select: Callable[..., list[tuple[Any, ...]]],
        sites: Mapping[str, Site],
        sizes: Mapping[str, int],
        decoded: Mapping[str, Summary] | None = None,
    ) -> None:
        self._select, self._sites, self._sizes = select, sites, sizes
        self._decoded = decoded

    def __len__(self) -> int:
        return len(self._sites)

    @property
    def size(self) -> int:
        """The bytes of all of them."""
        return sum(self._sizes[name] for name in self._sites)

    def __iter__(self) -> Iterator[Summary]:
        # No statement stays open meanwhile: another process could not erase a client then.
        for names in self._pieces(_READ_AHEAD):
            for part in self._of(names):
                yield from part.apart()

    def fragments(self) -> list[Fragment]:
        """Return all in fragments, of which `fedcof.scale.solve` makes a head."""
        return [
            _KeptFragment(
                [self._sites[name] for name in names],
                sum(self._sizes[name] for name in names),
                self._of,
            )
            for names in self._pieces(_FRAGMENT)
        ]

    def _pieces(self, size: int) -> Iterator[list[str]]:
        """Yield the clients, so many at a time that their bytes are about `size`."""
        some, held = list[str](), 0
        for name in self._sites:
            some.append(name)
            held += self._sizes[name]
            if held >= size:
                yield some
                some, held = [], 0
        if some:
            yield some

    def _of(self, names: Sequence[str]) -> list[Summary]:
        """Return the summaries of some clients, which follow each other, together if they can be.

        They were checked one by one when they came.
        """
        column = "data" if self._decoded is None else "NULL"
        query = f"SELECT client_id, {column} FROM summaries WHERE client_id BETWEEN ? AND ?"
        found = dict(self._select(query, names[0], names[-1]))
        for client_id in names:
            if client_id not in found:
                raise SummaryGoneError(client_id)
        if self._decoded is not None:
            return [self._decoded[client_id] for client_id in names]
        return from_bytes_together([found[client_id] for client_id in names])


@dataclass(frozen=True, eq=False)
class _KeptFragment:
    """Some summaries in the file, as a `fedcof.scale.Fragment`."""

    sites: Sequence[Site]
    size: int
    decode: Callable[[Sequence[str]], Sequence[Summary]]

    def read(self, *, counts_alone: bool, left_out: frozenset[str]) -> Iterator[Read]:
        """Yield the summaries; where counts are enough, what is known without decoding."""
        sites = [site for site in self.sites if left_out.isdisjoint(site.client_ids)]
        if counts_alone or not sites:
            yield Read(sites)
        else:
            yield Read(self.decode([name for site in sites for name in site.client_ids]))

    def places(self, client_id: str) -> list[str]:
        """Return where a client stands."""
        return ["the run folder" for site in self.sites if client_id in site.client_ids]


def _bytes_decoded(summary: Summary) -> int:
    """Return what a summary takes in memory, which is more than what a coding has packed."""
    arrays: list[NDArray[Any]] = [getattr(summary, name) for name in summary.axes]
    return _OBJECT + sum(array.nbytes for array in arrays)


def _as_texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: json.dumps(value, sort_keys=True) for key, value in values.items()}


def _first_difference(kept: Mapping[str, str], given: Mapping[str, str]) -> tuple[str, str, str]:
    """Return a setting in which two jobs differ, and both values; the method before what it has."""
    kept, given = _settings_alone(kept), _settings_alone(given)
    differing = [key for key in kept.keys() | given.keys() if kept.get(key) != given.get(key)]
    key = "method" if "method" in differing else min(differing)
    return key.replace("_", "-"), kept.get(key, "nothing"), given.get(key, "nothing")


def _settings_alone(job: Mapping[str, str]) -> dict[str, str]:
    """Return a job with the settings that its method gives the clients beside the others."""
    others = {key: text for key, text in job.items() if key != "client_settings"}
    return {**others, **_as_texts(json.loads(job.get("client_settings", "{}")))}


def _reason(error: OSError | sqlite3.Error) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _unwritten(error: sqlite3.OperationalError) -> str:
    return (
        f"cannot be written: {error}. The summaries that are in it are kept: make room, let this "
        "user write there, or end the other run that does, and run again with the same run folder"
    )
