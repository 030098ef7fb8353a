"""Keys: who a client is, and what two clients share in a round."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


class Identity(Protocol):
    """What signs for a client: a key that outlives rounds."""

    def sign(self, message: bytes) -> bytes:
        """Return a signature."""
        ...


class Directory(Protocol):
    """What knows the clients' public keys."""

    def verify(self, client_id: str, message: bytes, signature: bytes) -> bool:
        """Return whether this client signed the message; False for one that is not known."""
        ...


class Ed25519Identity:
    """An Ed25519 key of one client.

    Parameters
    ----------
    key : bytes, shape (32,), optional
        The private key; a new one where it is not given.
    """

    def __init__(
        self, key: bytes | None = None, *, random: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(key or random(32))

    @property
    def public_key(self) -> bytes:
        """The public key, shape (32,), for the directory."""
        return self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the signature, shape (64,)."""
        return self._private.sign(message)


class Ed25519Directory:
    """The Ed25519 keys of all clients.

    Parameters
    ----------
    keys : mapping of str to bytes
        Public keys by client id.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = dict(keys)

    def verify(self, client_id: str, message: bytes, signature: bytes) -> bool:
        """Return whether this client signed the message; False for one that is not known."""
        if client_id not in self._keys:
            return False
        try:
            Ed25519PublicKey.from_public_bytes(self._keys[client_id]).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True
