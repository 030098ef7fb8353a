"""``fedcof withdraw``: a client leaves, and with it all that it sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcof.commands.shared import errors_for_people, say
from fedcof.errors import SummaryError, first_of, reason_of

if TYPE_CHECKING:
    from fedcof.scale.dataset import DataSet
    from fedcof.summaries import Summary

WITHDRAWN = "withdrawn.json"
"""The clients that have withdrawn, in the folder of their summaries."""

_NAMED_CLIENTS = 10


def withdraw(
    client: Annotated[str, typer.Argument(help="The client that leaves.")],
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="The run folder of a federation; or files of summaries, or folders of them."
        ),
    ],
    *,
    readmit: Annotated[
        bool, typer.Option("--readmit", help="Take back a client that has left.")
    ] = False,
    min_clients: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With fewer summaries a run folder has no head. Default: as in the last run.",
        ),
    ] = None,
) -> None:
    """Erase what a client sent; a run folder's head is made again, of the others, bit for bit."""
    from fedcof.federation.serving import STORE

    with errors_for_people():
        runs = [source for source in sources if (source / STORE).exists()]
        files = [source for source in sources if source not in runs]
        for folder in runs:
            if readmit:
                _readmit_to_run(folder, client)
            else:
                _withdraw_from_run(folder, client, min_clients)
        if files:
            (_readmit_to_files if readmit else _withdraw_from_files)(files, client)


# Run folders


def _withdraw_from_run(folder: Path, client: str, min_clients: int | None) -> None:
    from fedcof.federation import serving

    settings = serving.Settings.kept(folder)
    if min_clients is not None:
        settings = replace(settings, plan=replace(settings.plan, min_clients=min_clients))
    with serving.opened(settings) as store:
        known = store.client_ids().union(store.unreadable, store.withdrawn(), *store.rounds())
        if client not in known:
            raise ValueError(
                f"{folder} knows no client {client!r}, but {_some(known)}; one that was never "
                "asked is kept out by withdraw in the run configuration"
            )
        head, lack = serving.withdraw(store, settings, [client])
    if head is None or head.provenance is None:
        say(f"{folder}: {client} has withdrawn, and there is no head any more: {lack}")
    else:
        clients = head.provenance.clients
        say(f"{folder / serving.HEAD}: {client} has withdrawn; of {clients:,} clients now")
    for path in sorted(folder.glob("*")):
        if path.name in _TRAINED:
            say(f"{path} was trained before that, and cannot be made without it: delete it")


_TRAINED = ("head-trained.safetensors", "model.safetensors", "checkpoint.safetensors")


def _readmit_to_run(folder: Path, client: str) -> None:
    from fedcof.federation import serving

    with serving.opened(serving.Settings.kept(folder)) as store:
        _check_has_left(client, store.withdrawn(), folder)
        store.readmit([client])
    say(f"{folder}: {client} is back, and is asked for its summary when the run is started again")


# Files


def withdrawn(folder: Path) -> set[str]:
    """Return the clients that have withdrawn from a folder of summaries.

    Raises
    ------
    ValueError
        If the list of them is damaged.
    """
    path = folder / WITHDRAWN
    if not path.exists():
        return set()
    try:
        names = json.loads(path.read_text(encoding="utf-8"))["withdrawn"]
        if not all(isinstance(name, str) for name in names):
            raise TypeError(names)
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f'{path} is damaged; it must hold {{"withdrawn": ["a client", ...]}}'
        ) from None
    return set(names)


def gone_from(data: DataSet) -> dict[str, Path]:
    """Return the clients of a data set that have withdrawn, each with the folder that says so.

    Who has withdrawn from one of its folders has withdrawn from all. The data set is read only if
    there is somebody.
    """
    from fedcof.scale.dataset import clients_of

    gone = {name: folder for folder in sorted(data.folders) for name in withdrawn(folder)}
    there = {
        name
        for file in (data.files if gone else ())
        for piece in file.pieces
        for name in clients_of(piece)
    }
    return {name: gone[name] for name in sorted(gone) if name in there}


@contextmanager
def _changed(folder: Path) -> Iterator[set[str]]:
    """Change the list of the clients that have withdrawn from a folder."""
    from fedcof.files import write_atomically

    names = withdrawn(folder)
    yield names
    content = json.dumps({"withdrawn": sorted(names)}, ensure_ascii=False, indent=2)
    write_atomically(folder / WITHDRAWN, f"{content}\n".encode())


def _withdraw_from_files(sources: Sequence[Path], client: str) -> None:
    """Delete the files of a client, and take it out of those that it shares with others."""
    from fedcof.scale.dataset import DAMAGED, folders_of, is_parquet, paths_of
    from fedcof.scale.writing import erase, names_in
    from fedcof.summaries import load
    from fedcof.summaries import withdraw as without

    paths, known = paths_of(sources), set[str]()
    left: dict[Path, Summary | None] = {}
    tables: list[Path] = []
    for path in paths:
        try:
            if is_parquet(path):
                names = names_in(path)
                known |= names
                tables += [path] if client in names else []
                continue
            summary = load(path)
        except DAMAGED as error:
            say(f"not looked into: {_named(path, error)}")
            continue
        known.update(summary.client_ids)
        if client in summary.client_ids:
            alone = len(summary.client_ids) == 1
            try:
                left[path] = None if alone else without(summary, client)
            except SummaryError as error:
                raise ValueError(f"{path}: {error}; nothing is changed") from None
    folders = folders_of(sources, paths)
    if client not in known.union(*map(withdrawn, folders)):
        raise ValueError(f"there is no client {client!r} in these files, but {_some(known)}")
    for folder in sorted(folders):
        with _changed(folder) as names:
            names.add(client)
    for path, others in left.items():
        if others is None:
            path.unlink()
        else:
            others.save(path)
        _say_left(path, client, 0 if others is None else len(others.client_ids))
    for path in tables:
        _say_left(path, client, erase(path, client))
    say(f"{client} has withdrawn. Solve again: a head that was made before still knows it")


def _say_left(path: Path, client: str, left: int) -> None:
    taken = f"{client} is taken out; {left:,} clients are left" if left else "deleted"
    say(f"{path}: {taken}")


def _named(path: Path, error: Exception) -> str:
    reason = reason_of(error)
    return reason if str(path) in reason else f"{path}: {reason}"


def _readmit_to_files(sources: Sequence[Path], client: str) -> None:
    from fedcof.scale.dataset import folders_of, paths_of

    try:
        paths = paths_of(sources)
    except FileNotFoundError:  # all of them are deleted
        paths = [path for path in sources if not path.is_dir()]
    folders = sorted(folders_of(sources, paths))
    _check_has_left(client, set().union(*map(withdrawn, folders)), folders[0])
    for folder in folders:
        with _changed(folder) as names:
            names.discard(client)
    say(f"{client} is back: its summary counts again, once it is there")


def _check_has_left(client: str, names: set[str], folder: Path) -> None:
    if client not in names:
        raise ValueError(f"{client!r} has not withdrawn from {folder}, but {_some(names)}")


def _some(names: set[str]) -> str:
    return first_of([repr(name) for name in sorted(names) if name], _NAMED_CLIENTS) or "none"
