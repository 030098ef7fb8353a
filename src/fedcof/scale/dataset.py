"""A data set of summaries: Parquet files, files of single summaries, and folders of both.

What the files say of themselves is read first, and a file that cannot be read or does not go with
most of the others is set aside. The rest makes fragments of a bounded size, cut by what the files
say alone, so that they are the same on every machine. A large row group is read in parts.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fedcof.errors import SummaryError, reason_of
from fedcof.scale.batches import numbers_of
from fedcof.scale.solving import BATCH_BYTES, Aside, Fragment, Read
from fedcof.summaries import Summary, from_bytes
from fedcof.summaries.arrow import (
    COUNTED,
    Layout,
    Table,
    client_names,
    import_arrow,
    without_views,
)
from fedcof.summaries.base import UNCHANGED

SUMMARY, PARQUET = ".summary", ".parquet"
"""The suffixes of what is read of a folder."""

_ENDS = 1 << 16
"""Bytes of both ends of a file by which copies are told."""

DAMAGED = (SummaryError, OSError, ValueError, NotImplementedError)
"""What reading a file raises that is damaged, or is none of ours; the last is pyarrow's."""

_ROW = 64
"""Bytes that a row takes beside its statistic."""

_PART = 24 << 20
"""Bytes of a row group that are in memory at once; a little more than those that `collect` writes
have."""

_SMALL = 1 << 20
"""Row groups below so many bytes are read together."""

_BUFFER = 1 << 20
"""Bytes of a column that are read at once: all of them are not held, however large a row group."""


@dataclass(frozen=True)
class Stamp:
    """What a file looks like from outside, so that a change while it is read is seen."""

    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Return that of a file."""
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns)


class Piece(Protocol):
    """What is read at once: a row group, or a file of a summary."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def place(self) -> str:
        """The file, and the row group."""

    @property
    def size(self) -> int:
        """Its bytes in memory."""

    def read(self, *, counts_alone: bool, left_out: frozenset[str]) -> Iterator[Read]:
        """As `Fragment.read`."""


@dataclass(frozen=True)
class RowGroup:
    """A row group of a Parquet file."""

    path: Path
    index: int
    rows: int
    size: int
    layout: Layout
    stamp: Stamp

    @property
    def place(self) -> str:
        """The file, and the row group."""
        return f"{self.path}, row group {self.index}"

    def read(self, *, counts_alone: bool, left_out: frozenset[str]) -> Iterator[Read]:
        """Read and check it; in parts, where it is large."""
        check_unchanged(self.path, self.stamp)
        columns = [*COUNTED, *(() if counts_alone else self.layout.summary_type.axes)]
        done = set(left_out)
        try:
            for table in self.tables(columns):
                rows = Table(self.layout, table, left_out)
                done.update(rows.client_ids)
                read = self._checked(rows, counts_alone=counts_alone)
                done.update(aside.client_id for aside in read.set_aside)
                yield read
        except DAMAGED as error:
            check_unchanged(self.path, self.stamp)
            yield Read([], self._unread(reason_of(error), done, counts_alone=counts_alone))
        check_unchanged(self.path, self.stamp)

    def _checked(self, rows: Table, *, counts_alone: bool) -> Read:
        """Return the clients whose rows are sound, and what is wrong with the others."""
        broken = rows.broken()
        aside = [Aside(self.place, str(error), name) for name, error in broken.items()]
        rows = rows.without(broken)
        if counts_alone or not len(rows):
            return Read([rows.rows()] if len(rows) else [], aside)
        try:
            return Read(rows.summaries(), aside)
        except SummaryError:  # of whom, is found client by client
            pass
        parts: list[Summary] = []
        for name, found in rows.each():
            if isinstance(found, SummaryError):
                aside.append(Aside(self.place, str(found), name))
            else:
                parts.append(found)
        return Read(parts, aside)

    def _unread(self, reason: str, done: Collection[str], *, counts_alone: bool) -> list[Aside]:
        """Set aside who could not be read any more; by name, where names can be read."""
        if not counts_alone:
            with suppress(*DAMAGED):
                names = dict.fromkeys(
                    name
                    for table in self.tables(COUNTED)
                    for name in Table(self.layout, table).client_ids
                    if name not in done
                )
                return [Aside(self.place, reason, name) for name in names]
        return [Aside(self.place, reason)]

    def tables(self, columns: Collection[str] | None = None) -> Iterator[Any]:
        """Yield the rows in tables of a bounded size, all of a client in one.

        Parameters
        ----------
        columns : collection of str, optional
            The client's among them; all by default.
        """
        pa = import_arrow()
        from pyarrow import parquet

        most = max(1, _PART * self.rows // self.size)
        with parquet.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False) as file:
            seen, held = 0, list[Any]()
            wanted = None if columns is None else list(columns)
            for batch in file.iter_batches(
                most, row_groups=[self.index], columns=wanted, use_threads=False
            ):
                seen += len(batch)
                table = without_views(pa.Table.from_batches([batch]))
                table = pa.concat_tables([*held, table])
                last = 0 if seen == self.rows else _rows_of_last_client(table)
                held = [table.slice(len(table) - last)] if last else []
                if last < len(table):
                    yield table.slice(0, len(table) - last)


def _rows_of_last_client(table: Any) -> int:
    """Return how many rows at the end of a table are of one client, of whom more may follow."""
    names = client_names(table)
    others = np.flatnonzero(names.to_numpy(zero_copy_only=False) != names[-1].as_py())
    return len(names) - 1 - int(others[-1]) if len(others) else len(names)


@dataclass(frozen=True)
class SummaryFile:
    """A file of a summary, as `fedcof.Summary.save` writes it."""

    path: Path
    size: int
    stamp: Stamp

    @property
    def place(self) -> str:
        """The file."""
        return str(self.path)

    def read(self, *, counts_alone: bool, left_out: frozenset[str]) -> Iterator[Read]:
        """Read and check it."""
        check_unchanged(self.path, self.stamp)
        try:
            summary = from_bytes(self.path.read_bytes())
        except (SummaryError, OSError) as error:
            check_unchanged(self.path, self.stamp)
            yield Read([], [Aside(self.place, reason_of(error))])
        else:
            check_unchanged(self.path, self.stamp)
            yield Read([summary] if left_out.isdisjoint(summary.client_ids) else [])


@dataclass(frozen=True)
class Pieces:
    """Row groups and files that are read together, as a `Fragment`."""

    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        """The bytes of all."""
        return sum(piece.size for piece in self.pieces)

    def read(self, *, counts_alone: bool, left_out: frozenset[str]) -> Iterator[Read]:
        """Read one after the other: several together, a single one in its parts."""
        how: dict[str, Any] = {"counts_alone": counts_alone, "left_out": left_out}
        if len(self.pieces) == 1:
            yield from self.pieces[0].read(**how)
            return
        together = list[Read]()
        for layout, some in groupby(self.pieces, _small_layout):
            pieces = list(some)
            sound = None if layout is None else _read_as_one(pieces, layout, **how)
            together += [r for p in pieces for r in p.read(**how)] if sound is None else [sound]
        yield Read(
            [part for one in together for part in one.parts],
            [aside for one in together for aside in one.set_aside],
        )

    def places(self, client_id: str) -> list[str]:
        """Return the row groups and files in which a client stands."""
        return [
            piece.place for piece in self.pieces for name in clients_of(piece) if name == client_id
        ]


def _small_layout(piece: Piece) -> Layout | None:
    return piece.layout if isinstance(piece, RowGroup) and piece.size < _SMALL else None


def _read_as_one(
    pieces: Sequence[Piece], layout: Layout, *, counts_alone: bool, left_out: frozenset[str]
) -> Read | None:
    """Read small row groups as one table: of thousands, each alone would take twice as long.

    None where something is wrong, so that each has to be read alone, which tells where.
    """
    pa = import_arrow()
    columns = [*COUNTED, *(() if counts_alone else layout.summary_type.axes)]
    tables = []
    try:
        for piece in pieces:
            assert isinstance(piece, RowGroup)
            check_unchanged(piece.path, piece.stamp)
            tables += [table.select(columns) for table in piece.tables(columns)]
            check_unchanged(piece.path, piece.stamp)
        whole = pa.concat_tables(tables).combine_chunks()
        starts = np.cumsum([len(table) for table in tables])[:-1]
        names = client_names(whole)
        if pa.compute.any(pa.compute.equal(names.take(starts - 1), names.take(starts))).as_py():
            return None  # a client is cut in two
        rows = Table(layout, whole, left_out)
        if rows.broken():
            return None
        if counts_alone or not len(rows):
            return Read([rows.rows()] if len(rows) else [])
        return Read(rows.summaries())
    except DAMAGED:
        return None


@dataclass(frozen=True)
class File:
    """A file of a data set, by what it says of itself.

    Parameters
    ----------
    path : Path
    kind : str
        That of its summaries.
    shape : str
        The lengths and the type of the labels, for people.
    made_by : tuple of (str, str)
        What made the features.
    rows : int
    pieces : tuple of Piece
    """

    path: Path
    kind: str
    shape: str
    made_by: tuple[tuple[str, str], ...]
    rows: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, eq=False)
class DataSet:
    """The files that go together, and those that are set aside.

    Parameters
    ----------
    files : list of File
        In the order in which they were named.
    set_aside : list of Aside
    folders : frozenset of Path
        As `folders_of` returns them.
    """

    files: list[File]
    set_aside: list[Aside] = field(default_factory=list)
    folders: frozenset[Path] = frozenset()

    @property
    def size(self) -> int:
        """The bytes of all summaries in memory."""
        return sum(piece.size for file in self.files for piece in file.pieces)

    @property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(file.rows for file in self.files)

    def fragments(self, most: int = BATCH_BYTES) -> list[Fragment]:
        """Return what is read together: pieces one after the other, up to a size."""
        found: list[Fragment] = []
        together: list[Piece] = []
        size = 0
        files = sorted(self.files, key=lambda file: file.path)  # however they were named
        for piece in (piece for file in files for piece in file.pieces):
            if together and size + piece.size > most:
                found.append(Pieces(tuple(together)))
                together, size = [], 0
            together.append(piece)
            size += piece.size
        if together:
            found.append(Pieces(tuple(together)))
        return found

    @classmethod
    def open(
        cls,
        sources: Iterable[Path],
        kind: type[Summary] | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> DataSet:
        """Look at files and folders.

        Parameters
        ----------
        sources : iterable of Path
            Files, or folders with files whose names end in ``.summary`` or ``.parquet``, in folders
            of theirs, too. Names that begin with a dot or an underscore are passed over.
        kind : type of Summary, optional
            What a method takes; files of another kind are set aside.
        advance : callable, optional
            Called with 1 for every file.

        Raises
        ------
        FileNotFoundError
            If there is no such file, or no summary in a folder.
        """
        files: list[File] = []
        set_aside: list[Aside] = []
        alike: dict[tuple[int, bytes, bytes], Path] = {}
        named = list(sources)
        paths = paths_of(named)
        for path in paths:
            if advance is not None:
                advance(1)
            try:
                file = look_at(path)
            except DAMAGED as error:
                set_aside.append(Aside(str(path), reason_of(error).removeprefix(f"{path}: ")))
                continue
            if kind is not None and file.kind != kind.kind:
                reason = (
                    f"a summary of kind {file.kind!r}, but the method takes {kind.kind!r}: give "
                    "the --method that the sites had"
                )
                set_aside.append(Aside(str(path), reason))
                continue
            first = alike.setdefault(_ends_of(path), path)
            if first != path and filecmp.cmp(first, path, shallow=False):
                set_aside.append(Aside(str(path), f"the same summary as {first}"))
            else:
                files.append(file)
        return cls(files, set_aside, folders_of(named, paths))

    def without_misfits(self) -> DataSet:
        """Return the data set without files that do not go with most of its rows.

        Raises
        ------
        SummaryError
            If no majority of the rows goes together.
        """
        return DataSet(*_without_misfits(self.files, self.set_aside), self.folders)


def clients_of(piece: Piece) -> list[str]:
    """Return the clients of a piece, each as often as it stands there."""
    return [
        name
        for read in piece.read(counts_alone=True, left_out=frozenset())
        for part in read.parts
        for name in part.client_ids
    ]


def paths_of(sources: Iterable[Path]) -> list[Path]:
    """Return the files that are named, and those of summaries in the folders that are named.

    Each once, those of a folder in the order of their names.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or no summary in a folder.
    """
    found: dict[str, Path] = {}
    for source in sources:
        if not source.exists():
            raise FileNotFoundError(f"there is no file or folder {source}")
        paths = list(_files_in(source)) if source.is_dir() else [source]
        if not paths:
            raise FileNotFoundError(
                f"no file in the folder {source} ends in {SUMMARY} or {PARQUET}; `fedcof "
                "summarize` writes them"
            )
        for path in paths:
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def _files_in(folder: Path, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """Yield the files of summaries in a folder and in its folders, but not in links in a circle."""
    here = os.path.realpath(folder)
    for path in () if here in above else sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        nested = list(_files_in(path, (*above, here))) if path.is_dir() else []
        yield from nested
        if not nested and path.suffix in (SUMMARY, PARQUET):
            yield path


def folders_of(sources: Iterable[Path], paths: Iterable[Path]) -> frozenset[Path]:
    """Return the folders that are named, those of some files, and those between them."""
    named = {source for source in sources if source.is_dir()}
    found = {path.parent for path in paths}
    between = {up for folder in found for up in folder.parents if not named.isdisjoint(up.parents)}
    return frozenset(named | found | between)


def look_at(path: Path) -> File:
    """Return what a file says of itself.

    Raises
    ------
    SummaryError, OSError, ValueError
        If it holds no summaries, or is damaged.
    """
    stamp = Stamp.of(path)
    if not path.is_file():  # a pipe would wait for a writer, and can be read once alone
        raise SummaryError("file", "it is no file")
    if is_parquet(path):
        return _look_at_parquet(path, stamp)
    summary = from_bytes(path.read_bytes())
    size = 4 * numbers_of(summary) + _ROW * len(summary.classes)
    return File(
        path,
        summary.kind,
        _shape_of(summary.axis_lengths | {"dim": summary.dim}, summary.classes.dtype.kind == "U"),
        tuple(sorted(summary.made_by.items())),
        len(summary.classes),
        (SummaryFile(path, size, stamp),),
    )


def is_parquet(path: Path) -> bool:
    """Return whether a file is a Parquet file, by its beginning or its name."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1" or path.suffix == PARQUET


def _look_at_parquet(path: Path, stamp: Stamp) -> File:
    pa = import_arrow()
    if stamp.size == 0:
        raise SummaryError("corrupt", "the file is empty")
    from pyarrow import parquet

    with parquet.ParquetFile(path, pre_buffer=False) as file:
        schema, metadata = schema_of(file), file.metadata
    layout = Layout.of_schema(schema)
    labels = schema.field("class").type
    if pa.types.is_dictionary(labels):
        labels = labels.value_type
    decoded = 4 * sum(
        _numbers(layout, name)
        for name, axes in layout.summary_type.axes.items()
        if axes[0] == "rows"
    )
    pieces = []
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        if group.num_rows:
            size = max(group.num_rows * (decoded + _ROW), group.total_byte_size)
            pieces.append(RowGroup(path, index, group.num_rows, size, layout, stamp))
    if not pieces:
        raise SummaryError("empty", "the file holds no row")
    return File(
        path,
        layout.kind,
        _shape_of(layout.lengths, not pa.types.is_integer(labels)),
        tuple(sorted({**UNCHANGED, **layout.origin}.items())),
        metadata.num_rows,
        tuple(pieces),
    )


def schema_of(file: Any) -> Any:
    """Return the schema of a `pyarrow.parquet.ParquetFile` with all metadata of the file.

    Some programs write it beside the schema of Arrow, and not into it.
    """
    schema = file.schema_arrow
    return schema.with_metadata({**(file.metadata.metadata or {}), **(schema.metadata or {})})


def _numbers(layout: Layout, name: str) -> int:
    numbers = 1
    for length in layout.shape(name, 1):
        numbers *= max(length, 1)
    return numbers


def _shape_of(lengths: dict[str, int] | Any, are_names: bool) -> str:
    others = sorted(item for item in lengths.items() if item[0] != "dim")
    axes = "".join(f", {axis} {length}" for axis, length in others)
    kind = "names" if are_names else "numbers"
    return f"features of length {lengths['dim']} and {kind} for labels{axes}"


def _ends_of(path: Path) -> tuple[int, bytes, bytes]:
    """Return the size of a file, its beginning and its end, in which two of them differ."""
    with path.open("rb") as file:
        size, first = path.stat().st_size, file.read(_ENDS)
        file.seek(max(0, size - _ENDS))
        return size, hashlib.sha256(first).digest(), hashlib.sha256(file.read(_ENDS)).digest()


def _without_misfits(files: list[File], set_aside: list[Aside]) -> tuple[list[File], list[Aside]]:
    """Set files aside that do not go with most rows: whoever comes first, most of them rule."""
    kept, misfit = files, list[Aside]()
    names = sorted({name for file in files for name, _ in file.made_by})
    traits: list[Callable[[File], str]] = [lambda file: file.kind, lambda file: file.shape]
    traits += [
        lambda file, name=name: (
            f"{name} {dict(file.made_by)[name]}"  # type: ignore[misc]
            if name in dict(file.made_by)
            else ""
        )
        for name in names
    ]
    for describe in traits:
        rows: Counter[str] = Counter()
        for file in kept:
            rows[describe(file)] += file.rows
        del rows[""]
        if len(rows) < 2:
            continue
        (usual, most), *_ = rows.most_common(1)
        if 2 * most <= sum(rows.values()):
            raise SummaryError(
                "kind",
                f"no head is made: {' and '.join(sorted(rows)[:3])} are here. No majority of the "
                "files goes together, so which of them are wrong cannot be told: give only those "
                "that do",
            )
        for file in kept:
            if (text := describe(file)) not in ("", usual):
                reason = f"{text}; {most} of {sum(rows.values())} rows have {usual}"
                misfit.append(Aside(str(file.path), reason))
        kept = [file for file in kept if describe(file) in ("", usual)]
    return kept, [*set_aside, *misfit]


def check_unchanged(path: Path, stamp: Stamp) -> None:
    """Check that a file is the one that was looked at.

    Raises
    ------
    SummaryError
        If it was changed or is gone, so that two passes may not see the same.
    """
    try:
        same = Stamp.of(path) == stamp
    except OSError:
        same = False
    if not same:
        raise SummaryError(
            "changed", f"{path} was changed while it was read: solve again once nobody writes it"
        )


__all__ = ["DataSet", "File", "Pieces", "RowGroup", "Stamp", "SummaryFile", "paths_of"]
