"""Summaries into a data set: each call adds a Parquet file, which is there whole or not at all."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedcof.codings import Float32
from fedcof.errors import SummaryError
from fedcof.files import in_place_of, locked, naming_file
from fedcof.scale.batches import numbers_of
from fedcof.scale.dataset import (
    PARQUET,
    DataSet,
    RowGroup,
    clients_of,
    look_at,
    paths_of,
    schema_of,
)
from fedcof.summaries import Summary
from fedcof.summaries.arrow import KEY, client_names, import_arrow, to_arrow, without_views

ROW_GROUP_BYTES = 16 << 20
"""Bytes of numbers in a row group, as decoded; see `fedcof.scale.solving.BATCH_BYTES`."""


def append(
    folder: Path,
    summaries: Iterable[Summary],
    *,
    coding: str = Float32.name,
    advance: Callable[[int], object] | None = None,
) -> Path | None:
    """Add summaries to a data set, as one more file.

    The file gets its name once it is whole, so a process that is killed leaves the data set as it
    was, and whoever reads it meanwhile sees the file or does not. The name comes from the clients.

    Parameters
    ----------
    folder : Path
        The data set; made where there is none.
    summaries : iterable of Summary
        Of one kind; they need not fit into memory together.
    coding : str, default "float32"
        How the numbers stand there.
    advance : callable, optional
        Called with the number of clients that were written.

    Returns
    -------
    Path or None
        The file; None where there is no summary, so that there is no file.

    Raises
    ------
    SummaryError
        If a client is in the data set already, or two summaries do not fit together; nothing is
        added then.
    """
    import_arrow()
    from pyarrow import parquet

    if folder.exists() and not folder.is_dir():
        raise SummaryError(
            "file", f"{folder} is a file: what is added is a file of its own, so give a folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    before = _files(folder)
    known = clients_in(before)
    temporary = folder / f".part-{secrets.token_hex(8)}"
    digest, writer, added = hashlib.sha256(), None, dict[str, str]()
    try:
        for batch in _batches(summaries):
            table = to_arrow(batch, coding)
            names = table.column("client").unique().to_pylist()
            for name in names:
                _check_new(name, known)
                _check_new(name, added)
                added[name] = "what is added"
                digest.update(name.encode(errors="surrogatepass") + b"\0")
            if writer is None:
                with naming_file(folder):
                    options = options_of(table.schema)
                    writer = parquet.ParquetWriter(temporary, table.schema, **options)
            elif not table.schema.equals(writer.schema, check_metadata=True):
                raise SummaryError(
                    "schema",
                    "has another kind, length, origin or type of labels than those before; add it "
                    "apart",
                    client_id=names[0],
                )
            with naming_file(folder):
                writer.write_table(table, row_group_size=len(table))
            if advance is not None:
                advance(len(names))
        if writer is None:
            return None
        with naming_file(folder):
            writer.close()
        writer = None
        path = folder / f"part-{digest.hexdigest()[:16]}{PARQUET}"
        with locked(folder):  # of two who add the same client at once, one comes first
            others = clients_in(_files(folder) - before)
            for name in added:
                _check_new(name, others)
            temporary.replace(path)
        return path
    finally:
        with suppress(OSError):  # the disk may be full, which was said
            if writer is not None:
                writer.close()
        temporary.unlink(missing_ok=True)


def _check_new(name: str, known: Mapping[str, str]) -> None:
    if name in known:
        raise SummaryError(
            "duplicate-client",
            f"is in {known[name]} already; a client counts once: take it out there, or let the "
            "sites have different names (--client-id)",
            client_id=name,
        )


def options_of(schema: Any) -> dict[str, Any]:
    """Return how a table is written: names and classes short, statistics as they are.

    Their bytes do not compress, and a dictionary or the least and largest of them tell nothing.
    """
    short = ["client", "class", "count", "n"]
    compression = {name: "zstd" if name in short else "none" for name in schema.names}
    return {"compression": compression, "use_dictionary": short, "write_statistics": ["class"]}


def _files(folder: Path) -> set[Path]:
    try:
        return set(paths_of([folder]))
    except FileNotFoundError:
        return set()


def clients_in(paths: Iterable[Path]) -> dict[str, str]:
    """Return the clients of some files, each with where it stands."""
    return {
        name: piece.place
        for file in DataSet.open(sorted(paths)).files
        for piece in file.pieces
        for name in clients_of(piece)
    }


def erase(path: Path, client_id: str) -> int:
    """Take the rows of a client out of a Parquet file, which is there whole before and after.

    The other rows stay as they are and in their order; a large row group becomes several.

    Returns
    -------
    int
        How many clients are left. Without one, the file is deleted.

    Raises
    ------
    SummaryError, OSError, ValueError
        If the file cannot be read.
    """
    import_arrow()
    from pyarrow import compute, parquet

    left: set[str] = set()
    with parquet.ParquetFile(path) as file:
        schema = schema_of(file)
    plain = without_views(schema.remove_metadata().empty_table()).schema
    schema = plain.with_metadata({KEY: schema.metadata[KEY]})
    with (
        in_place_of(path) as temporary,
        parquet.ParquetWriter(temporary, schema, **options_of(schema)) as writer,
    ):
        for piece in look_at(path).pieces:
            assert isinstance(piece, RowGroup)
            for table in piece.tables():
                others = table.filter(compute.not_equal(client_names(table), client_id))
                left.update(filter(None, client_names(others).unique().to_pylist()))
                if len(others):
                    writer.write_table(others, row_group_size=len(others))
    if not left:
        path.unlink()
    return len(left)


def names_in(path: Path) -> set[str]:
    """Return whoever has rows in a Parquet file, whether they are whole or not.

    Raises
    ------
    SummaryError, OSError, ValueError
        If the file cannot be read, or is no table of summaries.
    """
    return {
        name
        for piece in look_at(path).pieces
        if isinstance(piece, RowGroup)
        for table in piece.tables(["client"])
        for name in client_names(table).unique().to_pylist()
        if name
    }


def _batches(summaries: Iterable[Summary]) -> Iterator[list[Summary]]:
    batch: list[Summary] = []
    size = 0
    for part in summaries:
        batch.append(part)
        size += 4 * numbers_of(part)
        if size >= ROW_GROUP_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
