"""Whose a client is: a claim by the SuperNode of another key is refused.

The SuperLink knows the public key of every SuperNode, and a SuperNode proves that it has the
private one; its node id follows from the key. A client belongs to the key of the SuperNode that
named it first, which is kept in the run folder, or to the key that a roster file gives it. The
SuperNodes of a simulation have no keys, and claim whom they like.
"""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
    load_ssh_public_key,
)

from fedcof.errors import SettingError
from fedcof.federation.store import SummaryStore

_FINGERPRINT = "SHA256:"


@dataclass(frozen=True)
class Owners:
    """Which key may answer for which client.

    Parameters
    ----------
    store : SummaryStore
        Keeps who named a client first.
    declared : mapping of str to str, optional
        The fingerprint of the key of every client, as a roster file has them.
    """

    store: SummaryStore
    declared: Mapping[str, str] | None = None

    def foreign(self, client_ids: Collection[str], key: str) -> dict[str, str]:
        """Return the clients that a SuperNode with this key may not answer for, and why not.

        Those that belonged to nobody are its own from now on.
        """
        if self.declared is not None:
            owners = {name: self.declared.get(name, "") for name in client_ids}
        elif not key:
            return {}
        else:
            owners = self.store.bind(client_ids, key)
        with_key = key or "a SuperNode without a key"
        return {
            name: f"it belongs to the key {owner}, not to {with_key}"
            if owner
            else "it is not in the roster"
            for name, owner in owners.items()
            if owner != key or not owner
        }


def fingerprint(public_key: bytes) -> str:
    """Return what ``ssh-keygen -lf`` prints of a key in PEM; empty where these bytes are none."""
    try:
        key = load_pem_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        return ""
    return fingerprint_of(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))


def read_roster(path: Path, name: str = "roster") -> dict[str, str]:
    """Read a file of lines ``client id, key``, the key as ``ssh-keygen`` writes or prints it.

    Parameters
    ----------
    path : path
    name : str, default "roster"
        The setting that names the file, for messages.

    Raises
    ------
    SettingError
        If it cannot be read, or a line is something else; the line is named.
    """
    owners: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file, skipinitialspace=True))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(name, f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        if not line or line[0].startswith("#"):
            continue
        if len(line) != 2:
            raise SettingError(name, f"{path}, line {number}: expected `client id, key`")
        client_id, key = line[0].strip(), line[1].strip()
        if client_id in owners:
            raise SettingError(name, f"{path}, line {number}: {client_id!r} is there twice")
        if not key.startswith(_FINGERPRINT):
            try:
                load_ssh_public_key(key.encode())
            except (ValueError, UnsupportedAlgorithm):
                raise SettingError(
                    name,
                    f"{path}, line {number}: expected the public key of {client_id!r} as in the "
                    "file `site.pub`, or what `ssh-keygen -lf site.pub` prints, SHA256:...",
                ) from None
            key = fingerprint_of(key.encode())
        owners[client_id] = key
    return owners


def fingerprint_of(openssh: bytes) -> str:
    """Return what ``ssh-keygen -lf`` prints of a public key as OpenSSH has it."""
    digest = hashlib.sha256(base64.b64decode(openssh.split()[1])).digest()
    return _FINGERPRINT + base64.b64encode(digest).decode().rstrip("=")
