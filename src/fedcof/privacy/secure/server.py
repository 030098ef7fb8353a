"""The server's half of a round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from fedcof.errors import SecureError
from fedcof.privacy.secure.client import SEALED_BYTES
from fedcof.privacy.secure.graph import Circle
from fedcof.privacy.secure.keys import TAG_BYTES, Directory, agree, own_seed, pair_seed
from fedcof.privacy.secure.masks import add_mask
from fedcof.privacy.secure.messages import (
    SERVER,
    Kind,
    Post,
    PublicKeys,
    Reader,
    Roster,
    digest,
    write_call,
    write_chosen,
)
from fedcof.privacy.secure.ring import RingLayout
from fedcof.privacy.secure.shares import SHARE_BYTES, recover
from fedcof.privacy.secure.terms import Terms, plan


@dataclass
class _Peer:
    """What the server keeps of a client in a round: nothing of its vector."""

    keys: PublicKeys
    neighbours: tuple[int, ...] = ()
    sealed: dict[int, bytes] = field(default_factory=dict)
    masked_with: tuple[int, ...] = ()
    tags: dict[int, bytes] = field(default_factory=dict)
    confirmations: dict[int, bytes] = field(default_factory=dict)
    shares: dict[int, bytes] = field(default_factory=dict)
    """Of this client's secret, by the number of who holds them."""


class Server:
    """The server's half of one round.

    Five exchanges: keys, shares, masked vectors, confirmations, openings. ``advance`` ends an
    exchange and returns the messages of the next by client id, ``receive`` takes an answer::

        while messages := server.advance():
            for client_id, answer in ask(messages):
                server.receive(client_id, answer)
        arrays = server.result()

    Whoever has not answered when an exchange ends has dropped out and gets no more messages.

    Parameters
    ----------
    run : bytes, shape (16,)
        Names the run; never used twice.
    round_number : int
        Names the round within the run; never used twice.
    clients : iterable of str
        The ids of the clients that are called.
    directory : Directory
        Checks the clients' signatures.
    layout : RingLayout
    terms : Terms
    """

    def __init__(
        self,
        *,
        run: bytes,
        round_number: int,
        clients: Iterable[str],
        directory: Directory,
        layout: RingLayout,
        terms: Terms,
    ) -> None:
        self._post = Post(run, round_number)
        self._directory, self._layout, self._terms = directory, layout, terms
        self._called = sorted(set(clients))
        self._call = write_call(terms, layout.digest)
        self._exchanges = (
            (Kind.CALL, self._say_call, Kind.KEYS, self._take_keys),
            (Kind.ROSTER, self._say_roster, Kind.SHARES, self._take_shares),
            (Kind.INBOX, self._say_inboxes, Kind.MASKED, self._take_masked),
            (Kind.SURVIVORS, self._say_survivors, Kind.CONFIRMATION, self._take_confirmation),
            (Kind.CONFIRMATIONS, self._say_confirmations, Kind.OPENING, self._take_opening),
        )
        self._begun = 0
        self._asked: set[str] = set()
        self._arrived: set[str] = set()
        self._keys: dict[str, PublicKeys] = {}
        self._peers: list[_Peer] = []
        self._numbers: dict[str, int] = {}
        self._surviving: list[int] = []
        self._total = np.zeros(layout.size, np.uint64)
        self._opened = False
        self.liars: set[str] = set()
        """Clients that sent false shares, which were found out and not used."""

    def receive(self, client_id: str, data: bytes) -> None:
        """Take a client's answer.

        Raises
        ------
        SecureError
            If it is not the answer that is awaited of this client, or breaks a rule; it names the
            client, and changes nothing.
        """
        if client_id not in self._asked or client_id in self._arrived:
            raise SecureError(
                "turn",
                "an answer that is not awaited: the client was not asked, answered already, or "
                "dropped out",
                client_id=client_id,
            )
        _, _, kind, take = self._exchanges[self._begun - 1]
        take(client_id, Reader(self._post.read(data, kind, client_id, SERVER), client_id))
        self._arrived.add(client_id)

    def advance(self) -> dict[str, bytes]:
        """End the exchange and return the messages of the next; none after the last.

        Raises
        ------
        SecureError
            If too few clients are left, code "too-few": nothing is opened, and the round is over.
        """
        arrived, self._asked, self._arrived = sorted(self._arrived), set(), set()
        exchange, self._begun = self._begun, self._begun + 1
        try:
            if exchange == len(self._exchanges):
                self._open()
            if exchange >= len(self._exchanges):
                return {}
            kind, say, _, _ = self._exchanges[exchange]
            bodies = say(arrived)
        except SecureError:
            self._begun = len(self._exchanges) + 1
            self._peers, self._surviving = [], []
            self._total[:] = 0
            raise
        self._asked = set(bodies)
        return {
            client: self._post.write(kind, SERVER, client, body) for client, body in bodies.items()
        }

    def waiting(self) -> list[str]:
        """Return the clients that have yet to answer in this exchange."""
        return sorted(self._asked - self._arrived)

    @property
    def survivors(self) -> list[str]:
        """The clients whose vectors are in the sum, known from the third exchange's end on."""
        return [self._peers[number].keys.client_id for number in self._surviving]

    def result(self) -> dict[str, NDArray[np.float64]]:
        """Return the sums over the survivors by name, once the last exchange has ended.

        Raises
        ------
        SecureError
            If the sum is not open.
        SummaryError
            If a sum is out of the range that was agreed.
        """
        if not self._opened:
            raise SecureError("turn", "the sum is not open: the round goes on, or has failed")
        return self._layout.decode(self._total)

    def _say_call(self, arrived: list[str]) -> dict[str, bytes]:
        return dict.fromkeys(self._called, self._call)

    def _take_keys(self, client_id: str, reader: Reader) -> None:
        keys = PublicKeys.read(reader, client_id)
        reader.end()
        statement = keys.statement(self._post, digest(self._call))
        if not self._directory.verify(client_id, statement, keys.signature):
            raise SecureError(
                "signature",
                "its keys are not signed by the client that the directory knows",
                client_id=client_id,
            )
        self._keys[client_id] = keys

    def _say_roster(self, arrived: list[str]) -> dict[str, bytes]:
        """Give the clients numbers, and tell each about its neighbours."""
        self._plan = plan(len(arrived), self._terms)
        by_statement = {
            self._keys[client].statement(self._post, digest(self._call)): client
            for client in arrived
        }
        statements = tuple(sorted(by_statement))
        circle = Circle(statements, self._plan.neighbours)
        self._peers = [
            _Peer(self._keys[by_statement[statement]], circle.neighbours(number))
            for number, statement in enumerate(statements)
        ]
        self._numbers = {peer.keys.client_id: number for number, peer in enumerate(self._peers)}
        rosters = [
            Roster(
                self._plan,
                number,
                statements,
                tuple(self._peers[other].keys for other in peer.neighbours),
            )
            for number, peer in enumerate(self._peers)
        ]
        self._agreed = rosters[0].digest()
        return {self._id(roster.own): roster.write() for roster in rosters}

    def _take_shares(self, client_id: str, reader: Reader) -> None:
        number = self._numbers[client_id]
        neighbours = self._peers[number].neighbours
        sealed = reader.parts(len(neighbours), SEALED_BYTES)
        reader.end()
        for other, text in zip(neighbours, sealed, strict=True):
            self._peers[other].sealed[number] = text

    def _say_inboxes(self, arrived: list[str]) -> dict[str, bytes]:
        """Hand every client the shares of its neighbours."""
        self._check_enough(arrived, "shared their secrets")
        present = {self._numbers[client] for client in arrived}
        bodies = {}
        for number in sorted(present):
            peer = self._peers[number]
            peer.masked_with = tuple(other for other in peer.neighbours if other in present)
            texts = (peer.sealed[other] for other in peer.masked_with)
            chosen = write_chosen(peer.neighbours, peer.masked_with)
            bodies[self._id(number)] = b"".join((chosen, *texts))
        return bodies

    def _take_masked(self, client_id: str, reader: Reader) -> None:
        number = self._numbers[client_id]
        others = self._peers[number].masked_with
        tags = reader.parts(len(others), TAG_BYTES)
        vector = self._layout.unpack(reader.take(self._layout.packed_size))
        reader.end()
        for other, tag in zip(others, tags, strict=True):
            self._peers[other].tags[number] = tag
        np.add(self._total, vector, out=self._total)

    def _say_survivors(self, arrived: list[str]) -> dict[str, bytes]:
        """Tell every client whose vectors are in the sum, and prove its neighbours' masks."""
        self._check_enough(arrived, "sent their vectors")
        self._surviving = sorted(self._numbers[client] for client in arrived)
        chosen = write_chosen(range(len(self._peers)), self._surviving)
        bodies = {}
        for number in self._surviving:
            tags = self._peers[number].tags
            alive = self._alive(number)
            bodies[self._id(number)] = b"".join((chosen, *(tags[other] for other in alive)))
        return bodies

    def _take_confirmation(self, client_id: str, reader: Reader) -> None:
        number = self._numbers[client_id]
        alive = self._alive(number)
        tags = reader.parts(len(alive), TAG_BYTES)
        reader.end()
        for other, tag in zip(alive, tags, strict=True):
            self._peers[other].confirmations[number] = tag

    def _say_confirmations(self, arrived: list[str]) -> dict[str, bytes]:
        """Tell every client which of its neighbours saw the same survivors."""
        self._check_enough(arrived, "confirmed the survivors")
        present = {self._numbers[client] for client in arrived}
        bodies = {}
        for number in sorted(present):
            confirmations = self._peers[number].confirmations
            alive = self._alive(number)
            seen = [other for other in alive if other in present]
            tags = (confirmations[other] for other in seen)
            bodies[self._id(number)] = b"".join((write_chosen(alive, seen), *tags))
        return bodies

    def _take_opening(self, client_id: str, reader: Reader) -> None:
        number = self._numbers[client_id]
        of_whom = sorted((number, *self._peers[number].masked_with))
        shares = reader.parts(len(of_whom), SHARE_BYTES)
        reader.end()
        for other, share in zip(of_whom, shares, strict=True):
            self._peers[other].shares[number + 1] = share

    def _open(self) -> None:
        """Open the own masks of the survivors and the keys of the others, and take them off."""
        surviving = set(self._surviving)
        seeds = []
        for number, peer in enumerate(self._peers):
            if number in surviving:
                secret = self._recover(peer, _is_committed)
                seeds.append((own_seed(secret, self._agreed, number), True))
            elif others := [other for other in peer.masked_with if other in surviving]:
                private = X25519PrivateKey.from_private_bytes(self._recover(peer, _is_key_of))
                for other in others:
                    keys = self._peers[other].keys
                    secret = agree(private, keys.mask_key, keys.client_id)
                    # The survivor with the smaller number added the mask; it is subtracted.
                    seeds.append((pair_seed(secret, self._agreed, number, other), other < number))
        for seed, negative in seeds:
            add_mask(self._total, seed, negative=negative)
        self._opened = True

    def _recover(self, peer: _Peer, belongs: Callable[[bytes, PublicKeys], bool]) -> bytes:
        """Return a client's secret from its neighbours' shares."""
        keys, threshold = peer.keys, self._plan.threshold
        if len(peer.shares) < threshold:
            raise SecureError(
                "too-few",
                f"{len(peer.shares)} neighbours of client {keys.client_id!r} are left, and "
                f"{threshold} are needed to open the sum: nothing is opened; begin a new round",
            )
        secret, liars = recover(peer.shares, threshold, lambda secret: belongs(secret, keys))
        if secret is None:
            raise SecureError(
                "shares",
                "the shares of its secret do not open it: it gave false ones, or several of its "
                "neighbours did; begin a new round without it",
                client_id=keys.client_id,
            )
        self.liars |= {self._id(holder - 1) for holder in liars}
        return secret

    def _id(self, number: int) -> str:
        return self._peers[number].keys.client_id

    def _alive(self, number: int) -> list[int]:
        """Return the neighbours of a client that survive."""
        surviving = set(self._surviving)
        return [other for other in self._peers[number].neighbours if other in surviving]

    def _check_enough(self, arrived: Sequence[str], what: str) -> None:
        needed = max(self._terms.least, self._plan.threshold)
        if len(arrived) < needed:
            raise SecureError(
                "too-few",
                f"{len(arrived)} clients {what}, and {needed} are needed: nothing is opened; begin "
                "a new round",
            )


def _is_committed(secret: bytes, keys: PublicKeys) -> bool:
    """Return whether the secret of an own mask is the one that the client committed to."""
    return digest(b"own mask", secret) == keys.commitment


def _is_key_of(secret: bytes, keys: PublicKeys) -> bool:
    """Return whether a private key belongs to the client's public one."""
    public = X25519PrivateKey.from_private_bytes(secret).public_key()
    return public.public_bytes_raw() == keys.mask_key
