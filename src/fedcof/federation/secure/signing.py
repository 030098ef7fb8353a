"""Who signs for a client, and whose signatures count.

A site signs what its clients say in a sum with the key by which its SuperNode is known to Flower,
where its node configuration names that key's file, ``signing-key``. A server that follows the
protocol needs no signatures, since Flower's authentication tells it who sends. One that does not
could hand a client keys of its own in the place of its neighbours', and would then know every mask.
So a site may hold a list of the keys of all sites, ``known-sites``, which came to it by another way
than the server; it then takes nothing that is not signed by the site that has the client.

Whatever is signed has the digest of what all must agree on in front of it: a site that means
another job, other classes or other totals has signatures that nobody takes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

from fedcof.errors import SummaryError
from fedcof.federation.ownership import fingerprint_of

_HASH = hashes.SHA384()
_LENGTH = struct.Struct("<H")


@dataclass(frozen=True)
class Unsigned:
    """Signs nothing: what stands for a signature says only what the client means to agree on.

    Parameters
    ----------
    agreed : bytes
        What all must agree on.
    """

    agreed: bytes

    def sign(self, message: bytes) -> bytes:
        """Return a digest of the message and of what is agreed on."""
        return _digest(self.agreed, message)


class SiteKey:
    """The key of a SuperNode, ECDSA as Flower has it, which signs for its clients.

    Parameters
    ----------
    agreed : bytes
        What all must agree on.
    path : path
        The private key, as ``ssh-keygen`` or OpenSSL write it.

    Raises
    ------
    SummaryError
        If there is no such key.
    """

    def __init__(self, agreed: bytes, path: Path) -> None:
        try:
            data = path.read_bytes()
            load = load_ssh_private_key if b"OPENSSH" in data else load_pem_private_key
            key = load(data, password=None)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise SummaryError(
                "signing-key", f"{path} cannot be read as a private key: {error}"
            ) from None
        if not isinstance(key, EllipticCurvePrivateKey):
            raise SummaryError("signing-key", f"{path}: expected a key of ECDSA")
        self._agreed, self._key = agreed, key
        self._public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)

    def sign(self, message: bytes) -> bytes:
        """Return the public key and the signature."""
        signature = self._key.sign(_digest(self._agreed, message), ECDSA(_HASH))
        return _LENGTH.pack(len(self._public)) + self._public + signature


@dataclass(frozen=True)
class KnownSites:
    """Takes what the site that has the client has signed.

    Parameters
    ----------
    agreed : bytes
        What all must agree on.
    keys : mapping of str to str
        The fingerprint of the key of every client.
    unsigned : bool, default False
        Whether a client may sign nothing, or by a key that is not known: a server knows by Flower's
        authentication who it is, and a site without a list trusts the server to know.
    """

    agreed: bytes
    keys: Mapping[str, str]
    unsigned: bool = False

    def verify(self, client_id: str, message: bytes, signature: bytes) -> bool:
        """Return whether the client's site signed the message."""
        digest = _digest(self.agreed, message)
        if self.unsigned and signature == digest:
            return True
        try:
            (length,) = _LENGTH.unpack_from(signature)
            public = signature[_LENGTH.size : _LENGTH.size + length]
            key = load_ssh_public_key(public)
            if not isinstance(key, EllipticCurvePublicKey):
                return False
            key.verify(signature[_LENGTH.size + length :], digest, ECDSA(_HASH))
        except (InvalidSignature, ValueError, UnsupportedAlgorithm, struct.error):
            return False
        expected = self.keys.get(client_id, "")
        return fingerprint_of(public) == expected or (self.unsigned and not expected)


def _digest(agreed: bytes, message: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(agreed).digest() + message).digest()
