"""The messages of a round as bytes, each checked to its last byte.

Each names the version, the run, the round, its kind, its sender and its recipient. The server's
exchanges and the answers to them, in order:

============= ========================================= ============ ===========================
server        says                                      client       answers
============= ========================================= ============ ===========================
CALL          the terms and the layout of the vector    KEYS         public keys, signed
ROSTER        whose keys arrived; the neighbours' keys  SHARES       sealed shares of secrets
INBOX         the neighbours' sealed shares             MASKED       the masked vector
SURVIVORS     whose vectors arrived                     CONFIRMATION that it saw these survivors
CONFIRMATIONS who else saw them                         OPENING      shares that open the sum
============= ========================================= ============ ===========================
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Self

import numpy as np

from fedcof.errors import SecureError, SettingError
from fedcof.privacy.secure.keys import KEY_BYTES
from fedcof.privacy.secure.terms import Plan, Terms

SERVER = ""
"""The server's name as a sender and a recipient."""

RUN_BYTES = 16
DIGEST_BYTES = 32
NAME_BYTES = 8
"""Of a statement, those that come from the client's id."""

_START = struct.Struct(f">4sBB{RUN_BYTES}sIHHQ")
_MAGIC, _VERSION = b"fcsa", 1
_TERMS = struct.Struct(">ddI")
_PLAN = struct.Struct(">IIII")


class Kind(IntEnum):
    """What a message is."""

    CALL = 1
    KEYS = 2
    ROSTER = 3
    SHARES = 4
    INBOX = 5
    MASKED = 6
    SURVIVORS = 7
    CONFIRMATION = 8
    CONFIRMATIONS = 9
    OPENING = 10


def digest(*parts: bytes) -> bytes:
    """Return SHA-256 of parts, each behind its length, shape (32,)."""
    made = hashlib.sha256(b"fedcof secure aggregation 1")
    for part in parts:
        made.update(struct.pack(">Q", len(part)))
        made.update(part)
    return made.digest()


@dataclass(frozen=True)
class Post:
    """Writes and reads the messages of one round.

    Parameters
    ----------
    run : bytes, shape (16,)
    round_number : int
    """

    run: bytes
    round_number: int

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the post of the round that a message is of; `read` checks the rest."""
        if len(data) < _START.size:
            raise SecureError("bytes", f"{len(data)} bytes are no whole message")
        run, round_number = _START.unpack_from(data)[3:5]
        return cls(run, round_number)

    def write(self, kind: Kind, sender: str, recipient: str, body: bytes) -> bytes:
        """Return a message."""
        names = sender.encode(), recipient.encode()
        start = _START.pack(
            _MAGIC, _VERSION, kind, self.run, self.round_number, *map(len, names), len(body)
        )
        return b"".join((start, *names, body))

    def read(self, data: bytes, kind: Kind, sender: str, recipient: str) -> bytes:
        """Return the body of the one message that is awaited.

        Raises
        ------
        SecureError
            If it is another message, or not whole. It names the sender, if that is a client.
        """
        if len(data) < _START.size:
            raise SecureError("bytes", f"{len(data)} bytes are no whole message", client_id=sender)
        magic, version, number, run, round_number, *lengths = _START.unpack_from(data)
        if magic != _MAGIC:
            raise SecureError("bytes", "this is no message of secure aggregation", client_id=sender)
        if version != _VERSION:
            raise SecureError(
                "version",
                f"a message of version {version}; this is version {_VERSION}, install the same at "
                "both",
                client_id=sender,
            )
        if len(data) != _START.size + sum(lengths):
            raise SecureError(
                "bytes",
                f"{len(data)} bytes where a message of {_START.size + sum(lengths)} was begun: it "
                "was cut off or added to",
                client_id=sender,
            )
        if (run, round_number) != (self.run, self.round_number):
            raise SecureError(
                "run",
                f"a message of run {run.hex()}, round {round_number}, where round "
                f"{self.round_number} of run {self.run.hex()} goes on",
                client_id=sender,
            )
        names = data[_START.size : len(data) - lengths[2]]
        if names != sender.encode() + recipient.encode() or lengths[0] != len(sender.encode()):
            raise SecureError(
                "address",
                f"a message that is not from {sender or 'the server'!r} to "
                f"{recipient or 'the server'!r}",
                client_id=sender,
            )
        if number != kind:
            raise SecureError(
                "turn",
                f"expected the message {kind.name}, got number {number}: it was sent before, or "
                "out of turn",
                client_id=sender,
            )
        return data[len(data) - lengths[2] :]


class Reader:
    """Takes a body apart from its start; refuses one that is too short or too long.

    Parameters
    ----------
    body : bytes
    sender : str
        The client that is named where the body is refused.
    """

    def __init__(self, body: bytes, sender: str) -> None:
        self._body, self._sender, self._at = body, sender, 0

    def take(self, length: int) -> bytes:
        """Return the next bytes."""
        part = self._body[self._at : self._at + length]
        self._at += length
        if len(part) < length:
            raise SecureError(
                "bytes",
                f"a body of {len(self._body)} bytes is too short: {self._at} were awaited",
                client_id=self._sender,
            )
        return part

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """Return the next numbers."""
        return form.unpack(self.take(form.size))

    def parts(self, count: int, length: int) -> list[bytes]:
        """Return the next parts of one length."""
        whole = self.take(count * length)
        return [whole[start : start + length] for start in range(0, count * length, length)]

    def named(self) -> bytes:
        """Return bytes of a length that stands before them."""
        return self.take(int.from_bytes(self.take(2)))

    def chosen(self, among: Sequence[int]) -> list[int]:
        """Return which clients are chosen, a bit each."""
        data = self.take(-(-len(among) // 8))
        bits = np.unpackbits(np.frombuffer(data, np.uint8))
        if bits[len(among) :].any():
            raise SecureError(
                "bytes", f"more than {len(among)} clients are chosen", client_id=self._sender
            )
        return [client for client, bit in zip(among, bits.tolist(), strict=False) if bit]

    def end(self) -> None:
        """Refuse what is left."""
        if self._at != len(self._body):
            raise SecureError(
                "bytes",
                f"a body of {len(self._body)} bytes is too long: {self._at} were awaited",
                client_id=self._sender,
            )


def write_chosen(among: Sequence[int], chosen: Iterable[int]) -> bytes:
    """Return which clients are chosen, a bit each."""
    members = set(chosen)
    return np.packbits(np.array([client in members for client in among], bool)).tobytes()


def _with_length(data: bytes) -> bytes:
    return len(data).to_bytes(2) + data


def write_call(terms: Terms, layout: bytes) -> bytes:
    """Return the body of a call: the terms, and the digest of the layout."""
    return _TERMS.pack(terms.colluders, terms.dropouts, terms.least) + layout


def read_call(body: bytes) -> tuple[Terms, bytes]:
    """Return the terms and the digest of the layout of a call."""
    reader = Reader(body, SERVER)
    numbers = reader.unpack(_TERMS)
    layout = reader.take(DIGEST_BYTES)
    reader.end()
    try:
        return Terms(*numbers), layout
    except SettingError as error:
        raise SecureError("terms", f"the server calls on terms that cannot be: {error}") from None


@dataclass(frozen=True)
class PublicKeys:
    """What a client tells all others before a round.

    Parameters
    ----------
    client_id : str
    mask_key, channel_key : bytes, shape (32,)
        Public X25519 keys.
    commitment : bytes, shape (32,)
        The digest of the secret of the client's own mask: what is opened is checked with it.
    signature : bytes
        Of `statement`, by the client's identity.
    """

    client_id: str
    mask_key: bytes
    channel_key: bytes
    commitment: bytes
    signature: bytes = b""

    def statement(self, post: Post, call: bytes) -> bytes:
        """Return what is signed: these keys, for this round on these terms, shape (32,).

        Its first 8 bytes come from the client's id alone, so that nobody has two places in a
        roster, where others see no more than statements.
        """
        name = self.client_id.encode()
        keys = self.mask_key, self.channel_key, self.commitment
        round_number = post.round_number.to_bytes(4)
        whole = digest(b"keys", post.run, round_number, call, name, *keys)
        return digest(b"client", post.run, name)[:NAME_BYTES] + whole[NAME_BYTES:]

    def signed(self, signature: bytes) -> Self:
        """Return the keys with a signature."""
        return replace(self, signature=signature)

    def write(self) -> bytes:
        """Return the keys and the signature as bytes, without the client's id."""
        keys = self.mask_key + self.channel_key + self.commitment
        return keys + _with_length(self.signature)

    @classmethod
    def read(cls, reader: Reader, client_id: str) -> Self:
        """Return the keys of a client."""
        mask_key, channel_key, commitment = reader.parts(3, KEY_BYTES)
        return cls(client_id, mask_key, channel_key, commitment, reader.named())


@dataclass(frozen=True)
class Roster:
    """Whose keys a round has, as one client sees it.

    Parameters
    ----------
    plan : Plan
    own : int
        The client's number: its place among the statements.
    statements : tuple of bytes
        Of all clients, in ascending order: a client's number is its statement's place.
    neighbours : tuple of PublicKeys
        In the order of their numbers.
    """

    plan: Plan
    own: int
    statements: tuple[bytes, ...]
    neighbours: tuple[PublicKeys, ...]

    def write(self) -> bytes:
        """Return the body of a roster."""
        start = _PLAN.pack(
            len(self.statements), self.own, self.plan.neighbours, self.plan.threshold
        )
        entries = (_with_length(keys.client_id.encode()) + keys.write() for keys in self.neighbours)
        return b"".join((start, *self.statements, *entries))

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Return the roster that a body has."""
        reader = Reader(body, SERVER)
        clients, own, count, threshold = reader.unpack(_PLAN)
        statements = tuple(reader.parts(clients, DIGEST_BYTES))
        neighbours = []
        for _ in range(count):
            client_id = reader.named().decode(errors="replace")
            neighbours.append(PublicKeys.read(reader, client_id))
        reader.end()
        return cls(Plan(count, threshold), own, statements, tuple(neighbours))

    def digest(self) -> bytes:
        """Return the digest of what all clients of the round agree on, shape (32,)."""
        plan = _PLAN.pack(len(self.statements), 0, self.plan.neighbours, self.plan.threshold)
        return digest(b"roster", plan, *self.statements)
