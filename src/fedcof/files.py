"""Files that are written whole or not at all; those of the user's cache are checked when read."""

import errno
import hashlib
import os
import secrets
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

import platformdirs

_DIGEST_SIZE = hashlib.sha256().digest_size

_FULL = {errno.ENOSPC, errno.EFBIG, *([errno.EDQUOT] if hasattr(errno, "EDQUOT") else [])}
"""What the system says where no more can be written; Windows knows no quota."""

_LONGEST_STEM = 100
"""Characters of a file's name before its suffix; encrypted file systems take 143 in all."""

_DEVICES = {"CON", "PRN", "AUX", "NUL"} | {
    f"{port}{i}" for port in ("COM", "LPT") for i in range(10)
}
"""Names that Windows keeps for devices, with any suffix."""


def cache_folder() -> Path:
    """Return the folder for cached models and features.

    It is ``$FEDCOF_CACHE`` where that is set, else the platform's cache folder of the user.
    """
    override = os.environ.get("FEDCOF_CACHE")
    if override:
        return Path(override).expanduser()
    return platformdirs.user_cache_path("fedcof", appauthor=False)


def write_atomically(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file so that it never exists half-written, even if the process is killed.

    Folders that it needs are made. A link stays one: what it points to is written. Of several parts
    it holds one after the other.
    """
    with in_place_of(path) as temporary, temporary.open("xb") as file:
        for part in parts:
            file.write(part)


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """Write a text file bit by bit, which is there only once the block has ended well."""
    with (
        in_place_of(path) as temporary,
        temporary.open("x", encoding="utf-8", newline="") as file,
    ):
        yield file


@contextmanager
def owner_only() -> Iterator[None]:
    """Let nobody but their owner read the files and folders that are made within the block.

    It sets the umask of the process, so what other threads make meanwhile is as private.
    """
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time into the block, of those that lock the same folder.

    The lock goes with the process, however it ends. Where the system or the file system has none,
    as on Windows, nobody waits.
    """
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def in_place_of(path: Path) -> Iterator[Path]:
    """Yield the path of a file that takes the place of another once the block has ended well."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with naming_file(path):
            yield temporary
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Name the file that is written where the disk is full: the error of the system does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _FULL:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise


def store(path: Path, *parts: bytes | memoryview) -> bool:
    """Keep data in the cache file ``path``, followed by its SHA-256 digest.

    Returns
    -------
    bool
        Whether it could be written.

    Warns
    -----
    RuntimeWarning
        If the file cannot be written. The work goes on without it.
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    try:
        write_atomically(path, *parts, digest.digest())
    except OSError as error:
        warnings.warn(
            f"cannot write the cache file {path} ({error.strerror}); set the environment variable "
            "FEDCOF_CACHE to a folder that can be written",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


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
    return content[:-_DIGEST_SIZE] if _is_whole(content, path) else None


def fetch_mapped(path: Path) -> memoryview | None:
    """Return what `fetch` returns, mapped into memory: it is read as it is used."""
    try:
        with path.open("rb") as file:
            content = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
    except (OSError, ValueError):  # of an empty file
        return None
    return content[:-_DIGEST_SIZE] if _is_whole(content, path) else None


def _is_whole(content: bytes | memoryview, path: Path) -> bool:
    """Return whether the digest at the end of a cache file is that of the rest; warn if not."""
    if hashlib.sha256(content[:-_DIGEST_SIZE]).digest() != bytes(content[-_DIGEST_SIZE:]):
        warnings.warn(
            f"the cache file {path} is damaged (its checksum differs) and is made again",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    return True


def file_names(names: Iterable[str], suffix: str) -> dict[str, str]:
    """Return a file's name for each of some names, whatever characters they hold.

    What is no ASCII letter, digit, dot, dash, underscore or space within is written as ``%XX``, so
    that the file is not hidden, no option, no device and no folder. Names that are too long, or
    that differ in case only, end in a digest: no two share a file, on any file system.

    Examples
    --------
    >>> file_names(["ward 2", "../x", "CON"], ".summary")
    {'ward 2': 'ward 2.summary', '../x': '%2E.%2Fx.summary', 'CON': '%43ON.summary'}
    """
    stems = {name: _stem(name) for name in names}
    same = Counter(stem.lower() for stem in stems.values())
    return {
        name: f"{_with_digest(stem, name) if _is_shared(stem, same) else stem}{suffix}"
        for name, stem in stems.items()
    }


def _is_shared(stem: str, same: Mapping[str, int]) -> bool:
    return len(stem) > _LONGEST_STEM or same[stem.lower()] > 1


def _stem(name: str) -> str:
    stem = quote(name, safe=" ", errors="surrogatepass").replace("~", "%7E")
    if stem[:1] in ("", ".", "-", " ") or stem.partition(".")[0].upper() in _DEVICES:
        stem = f"%{ord(stem[0]):02X}{stem[1:]}" if stem else "%"
    return f"{stem[:-1]}%{ord(stem[-1]):02X}" if stem[-1] in ". " else stem


def _with_digest(stem: str, name: str) -> str:
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    kept = stem[: _LONGEST_STEM - len(digest) - 1]
    return f"{kept[: kept.rfind('%')] if '%' in kept[-2:] else kept}-{digest}"


def write_new(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file as `write_atomically` does, but never over one with another content.

    Raises
    ------
    FileExistsError
        If there is one, and it is not to be replaced.
    """
    if not replace and path.exists() and (path.is_dir() or path.read_bytes() != data):
        raise FileExistsError(
            f"{path} is there already, with another content, and is not overwritten: give another "
            "name or folder for the new one, or --force to replace the old one"
        )
    write_atomically(path, data)
