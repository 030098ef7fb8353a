"""Keys: who a client is, what it keeps for one round, and what two clients share in it.

A client makes two X25519 keys a round. From one follow its masks with its neighbours, and it is
opened where the client drops out. From the other follow the channels to its neighbours, and it is
never opened. Every derived key is bound to the roster, which holds the run, the round, the terms
and the public keys of all, and to the numbers of the two clients: it serves one purpose once.
"""

from __future__ import annotations

import hmac
import os
import struct
from collections.abc import Callable, Mapping
from typing import Protocol

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedcof.errors import SecureError

KEY_BYTES = 32
TAG_BYTES = 16
SEAL_BYTES = 16
"""What sealing adds to a text."""

_ONE_MESSAGE = bytes(12)
"""The nonce of a key that seals one message."""


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


def agree(private: X25519PrivateKey, public: bytes, client_id: str) -> bytes:
    """Return the secret of two X25519 keys, shape (32,).

    Raises
    ------
    SecureError
        If the public key, of this client, is one that gives the same secret with every key.
    """
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise SecureError(
            "keys", "the public key is none that a client makes", client_id=client_id
        ) from None


def derive(secret: bytes, roster: bytes, purpose: bytes, *clients: int, length: int = 32) -> bytes:
    """Return a key for one purpose of one round (HKDF with SHA-256).

    Parameters
    ----------
    secret : bytes
    roster : bytes, shape (32,)
        The digest of what the round's clients agreed on.
    purpose : bytes
    clients : int
        The numbers of those whose key it is.
    length : int, default 32
    """
    info = purpose + struct.pack(f">{len(clients)}I", *clients)
    return HKDF(SHA256(), length, salt=roster, info=info).derive(secret)


def own_seed(secret: bytes, roster: bytes, client: int) -> bytes:
    """Return the seed of a client's own mask."""
    return derive(secret, roster, b"own mask", client)


def pair_seed(secret: bytes, roster: bytes, one: int, other: int) -> bytes:
    """Return the seed of the mask that two clients share: one adds it, the other takes it off."""
    return derive(secret, roster, b"pair mask", min(one, other), max(one, other))


class Channel:
    """What one client sends another in a round, past the server; one direction.

    Parameters
    ----------
    secret : bytes
        What the keys of the two agree on.
    roster : bytes, shape (32,)
    sender, recipient : int
    """

    def __init__(self, secret: bytes, roster: bytes, sender: int, recipient: int) -> None:
        keys = derive(secret, roster, b"channel", sender, recipient, length=64)
        self._seal, self._tag = ChaCha20Poly1305(keys[:32]), keys[32:]

    def seal(self, text: bytes) -> bytes:
        """Return the one text that this channel carries, sealed."""
        return self._seal.encrypt(_ONE_MESSAGE, text, None)

    def unseal(self, sealed: bytes) -> bytes | None:
        """Return the text; None where another sealed it or it was altered."""
        try:
            return self._seal.decrypt(_ONE_MESSAGE, sealed, None)
        except InvalidTag:
            return None

    def tag(self, statement: bytes) -> bytes:
        """Return the proof to the recipient that the sender says so, shape (16,)."""
        return hmac.digest(self._tag, statement, "sha256")[:TAG_BYTES]

    def proves(self, statement: bytes, tag: bytes) -> bool:
        """Return whether the sender said so."""
        return hmac.compare_digest(self.tag(statement), tag)
