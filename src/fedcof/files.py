"""Files that are written whole or not at all; those of the user's cache are checked when read."""

import hashlib
import os
import secrets
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import platformdirs

_DIGEST_SIZE = hashlib.sha256().digest_size


def cache_folder() -> Path:
    """Return the folder for cached models and features.

    It is ``$FEDCOF_CACHE`` where that is set, else the platform's cache folder of the user.
    """
    override = os.environ.get("FEDCOF_CACHE")
    if override:
        return Path(override).expanduser()
    return platformdirs.user_cache_path("fedcof", appauthor=False)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it never exists half-written, even if the process is killed.

    Folders that it needs are made. A link stays one: what it points to is written.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """Write a text file bit by bit, which is there only once the block has ended well."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("x", encoding="utf-8", newline="") as file:
            yield file
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def store(path: Path, data: bytes) -> None:
    """Keep ``data`` in the cache file ``path``, followed by its SHA-256 digest.

    Warns
    -----
    RuntimeWarning
        If the file cannot be written. The work goes on without it.
    """
    try:
        write_atomically(path, data + hashlib.sha256(data).digest())
    except OSError as error:
        warnings.warn(
            f"cannot write the cache file {path} ({error.strerror}); set the environment variable "
            "FEDCOF_CACHE to a folder that can be written",
            RuntimeWarning,
            stacklevel=2,
        )


def fetch(path: Path) -> bytes | None:
    """Return what `store` kept in ``path``; None where it is absent or damaged.

    Warns
    -----
    RuntimeWarning
        If the file is there but truncated or altered. It is named; `store` replaces it.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    data, digest = content[:-_DIGEST_SIZE], content[-_DIGEST_SIZE:]
    if hashlib.sha256(data).digest() != digest:
        warnings.warn(
            f"the cache file {path} is damaged (its checksum differs) and is made again",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return data
