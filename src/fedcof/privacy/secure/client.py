"""A client's half of a round.

All that a client keeps of a round lives in its process and dies with it: a client that is killed
has dropped out. A server that is killed begins a new round, in which the clients make new keys, so
no client ever opens shares of one round for two sets of survivors.

Two sums that depend on each other, such as the two phases of FedCOF, are two rounds with new keys.
Masks of both from one agreement would save some milliseconds, and a client that drops out of the
first round, whose key is then opened, could never again be masked: with its key the server reads
what it sends in the second, or sent too late in the first.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedcof.errors import SecureError
from fedcof.privacy.secure.graph import Circle
from fedcof.privacy.secure.keys import (
    SEAL_BYTES,
    TAG_BYTES,
    Channel,
    Directory,
    Identity,
    agree,
    own_seed,
    pair_seed,
)
from fedcof.privacy.secure.masks import add_mask
from fedcof.privacy.secure.messages import (
    NAME_BYTES,
    SERVER,
    Kind,
    Post,
    PublicKeys,
    Reader,
    Roster,
    digest,
    read_call,
    write_chosen,
)
from fedcof.privacy.secure.ring import RingLayout, Vector
from fedcof.privacy.secure.shares import SECRET_BYTES, SHARE_BYTES, split
from fedcof.privacy.secure.terms import Terms

MASKED_WITH = b"masked with you"
SEALED_BYTES = 2 * SHARE_BYTES + SEAL_BYTES


class Client:
    """A client's half of one round; `answer` is called with every message of the server.

    Parameters
    ----------
    client_id : str
        The id under which the server and the directory know the client.
    identity : Identity
        Signs the round's public keys of this client.
    directory : Directory
        Checks the signatures of the others. It must not come from the server where that is not
        trusted.
    layout : RingLayout
    vector : ndarray of uint64, shape (layout.size,)
        What the client adds: ``layout.encode(arrays)``, and noise where there is any.
    terms : Terms
        The least that the client asks of a round: a call with fewer colluders, or with a smaller
        `least`, is refused.
    random : callable, default os.urandom
        Draws all secrets; another one is for tests.
    """

    def __init__(
        self,
        *,
        client_id: str,
        identity: Identity,
        directory: Directory,
        layout: RingLayout,
        vector: Vector,
        terms: Terms,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        if vector.shape != (layout.size,):
            raise SecureError(
                "length", f"expected a vector of {layout.size} integers, got {vector.shape}"
            )
        self._id, self._identity, self._directory = client_id, identity, directory
        self._layout, self._vector, self._random = layout, vector, random
        self._demands = self._terms = terms
        self._post: Post | None = None
        self._steps = [
            (Kind.CALL, Kind.KEYS, self._make_keys),
            (Kind.ROSTER, Kind.SHARES, self._share_secrets),
            (Kind.INBOX, Kind.MASKED, self._mask),
            (Kind.SURVIVORS, Kind.CONFIRMATION, self._confirm),
            (Kind.CONFIRMATIONS, Kind.OPENING, self._open),
        ]
        self._mask_key = X25519PrivateKey.from_private_bytes(random(SECRET_BYTES))
        self._channel_key = X25519PrivateKey.from_private_bytes(random(SECRET_BYTES))
        self._secret = random(SECRET_BYTES)

    @property
    def opened(self) -> bool:
        """Whether the client has answered so that its vector may stand in an opened sum."""
        return not self._steps

    def answer(self, data: bytes) -> bytes:
        """Return the answer to a message of the server; every message is answered once.

        Raises
        ------
        SecureError
            If the message is not the one that is awaited, or breaks a rule. It changes nothing.
        """
        if not self._steps:
            raise SecureError("turn", "the round is over for this client, nothing is answered")
        awaited, kind, step = self._steps[0]
        post = self._post or Post.of(data)  # a call names the round
        body = step(post, post.read(data, awaited, SERVER, self._id))
        self._post = post
        del self._steps[0]
        if not self._steps:
            self.forget()
        return post.write(kind, self._id, SERVER, body)

    def forget(self) -> None:
        """Give up the round and drop its secrets; nothing is answered any more.

        Python frees their memory and cannot overwrite it, since bytes and the library's keys are
        immutable.
        """
        self._steps = []
        for name in ("_mask_key", "_channel_key", "_secret", "_vector", "_to", "_of", "_held"):
            self.__dict__.pop(name, None)

    def _make_keys(self, post: Post, body: bytes) -> bytes:
        """Agree to the terms of a call and say the public keys."""
        terms, layout = read_call(body)
        if terms.colluders < self._demands.colluders or terms.least < self._demands.least:
            raise SecureError(
                "terms",
                f"the server calls on terms that protect less ({terms}) than this client asks for "
                f"({self._demands})",
            )
        if layout != self._layout.digest:
            raise SecureError(
                "layout",
                "the server sums a vector of another layout: other classes, dimension, bounds or "
                "number of clients than this client was told",
            )
        self._terms, self._call = terms, digest(body)
        keys = PublicKeys(
            self._id,
            self._mask_key.public_key().public_bytes_raw(),
            self._channel_key.public_key().public_bytes_raw(),
            digest(b"own mask", self._secret),
        )
        self._statement = keys.statement(post, self._call)
        return keys.signed(self._identity.sign(self._statement)).write()

    def _share_secrets(self, post: Post, body: bytes) -> bytes:
        """Check whose keys the round has, and share both secrets with the neighbours and itself."""
        roster = Roster.read(body)
        peers = self._checked_peers(post, roster)
        own, agreed, threshold = roster.own, roster.digest(), roster.plan.threshold
        to, of = {}, {}
        for number, keys in peers.items():
            secret = agree(self._channel_key, keys.channel_key, keys.client_id)
            to[number] = Channel(secret, agreed, own, number)
            of[number] = Channel(secret, agreed, number, own)
        holders = sorted([own, *peers])
        numbers = [holder + 1 for holder in holders]  # the value at 0 is the secret
        mask_key = self._mask_key.private_bytes_raw()
        shares = {
            holder: own_share + key_share
            for holder, own_share, key_share in zip(
                holders,
                split(self._secret, numbers, threshold, self._random),
                split(mask_key, numbers, threshold, self._random),
                strict=True,
            )
        }
        self._own, self._agreed, self._threshold = own, agreed, threshold
        self._clients, self._peers, self._to, self._of = len(roster.statements), peers, to, of
        self._held = {own: shares[own]}
        return b"".join(to[number].seal(shares[number]) for number in peers)

    def _checked_peers(self, post: Post, roster: Roster) -> dict[int, PublicKeys]:
        """Return the neighbours' keys by number, once they are known to be theirs."""
        statements = roster.statements
        names = [statement[:NAME_BYTES] for statement in statements]
        if names != sorted(set(names)):
            raise SecureError("roster", "a client stands in the roster twice")
        if not roster.plan.is_safe(len(statements), self._terms):
            raise SecureError(
                "terms",
                f"{roster.plan} protects less among {len(statements)} clients than the terms that "
                "the server called on",
            )
        if roster.own >= len(statements) or statements[roster.own] != self._statement:
            raise SecureError("roster", "the roster does not have the keys that this client sent")
        numbers = Circle(statements, roster.plan.neighbours).neighbours(roster.own)
        peers = dict(zip(numbers, roster.neighbours, strict=True))
        for number, keys in peers.items():
            if keys.statement(post, self._call) != statements[number]:
                raise SecureError(
                    "roster", "its keys are not those of the roster", client_id=keys.client_id
                )
            if not self._directory.verify(keys.client_id, statements[number], keys.signature):
                raise SecureError(
                    "signature",
                    "its keys are not signed by the client that the directory knows",
                    client_id=keys.client_id,
                )
        return peers

    def _mask(self, post: Post, body: bytes) -> bytes:
        """Keep the neighbours' shares, and mask the vector with each neighbour that sent some."""
        reader = Reader(body, SERVER)
        numbers = reader.chosen([*self._peers])
        sealed = reader.parts(len(numbers), SEALED_BYTES)
        reader.end()
        self._check_enough(len(numbers) + 1, "shared their secrets")
        held = dict(self._held)
        for number, text in zip(numbers, sealed, strict=True):
            shares = self._of[number].unseal(text)
            if shares is None:
                raise SecureError(
                    "shares",
                    "its shares were sealed for another, or altered",
                    client_id=self._peers[number].client_id,
                )
            held[number] = shares
        masked = self._vector.copy()
        add_mask(masked, own_seed(self._secret, self._agreed, self._own))
        for number in numbers:
            keys = self._peers[number]
            secret = agree(self._mask_key, keys.mask_key, keys.client_id)
            seed = pair_seed(secret, self._agreed, self._own, number)
            add_mask(masked, seed, negative=self._own > number)
        self._held = held
        tags = [self._to[number].tag(MASKED_WITH) for number in numbers]
        return b"".join((*tags, self._layout.pack(masked)))

    def _confirm(self, post: Post, body: bytes) -> bytes:
        """Check who survives, and tell the surviving neighbours that this client saw it."""
        reader = Reader(body, SERVER)
        survivors = frozenset(reader.chosen(range(self._clients)))
        alive = [number for number in self._peers if number in survivors]
        tags = reader.parts(len(alive), TAG_BYTES)
        reader.end()
        if self._own not in survivors:
            raise SecureError(
                "survivors", "the server says that this client's vector did not arrive"
            )
        if len(survivors) < self._terms.least:
            raise SecureError(
                "too-few",
                f"{len(survivors)} clients are left, and the sum is over {self._terms.least} at "
                "least",
            )
        self._check_enough(len(alive) + 1, "sent their vectors")
        for number, tag in zip(alive, tags, strict=True):
            if number not in self._held or not self._of[number].proves(MASKED_WITH, tag):
                raise SecureError(
                    "survivors",
                    "the server says that its vector arrived, and cannot prove that it is masked "
                    "with this client",
                    client_id=self._peers[number].client_id,
                )
        self._alive, self._seen = (
            alive,
            digest(b"survivors", self._agreed, write_chosen(range(self._clients), survivors)),
        )
        return b"".join(self._to[number].tag(self._seen) for number in alive)

    def _open(self, post: Post, body: bytes) -> bytes:
        """Check who saw the same survivors; give a share of each neighbour's mask or of its key."""
        reader = Reader(body, SERVER)
        numbers = reader.chosen(self._alive)
        tags = reader.parts(len(numbers), TAG_BYTES)
        reader.end()
        for number, tag in zip(numbers, tags, strict=True):
            if not self._of[number].proves(self._seen, tag):
                raise SecureError(
                    "survivors",
                    "it did not see the survivors that this client saw: the server told them apart",
                    client_id=self._peers[number].client_id,
                )
        self._check_enough(len(numbers) + 1, "saw the same survivors")
        survive = {self._own, *self._alive}
        return b"".join(
            shares[:SHARE_BYTES] if number in survive else shares[SHARE_BYTES:]
            for number, shares in sorted(self._held.items())
        )

    def _check_enough(self, count: int, what: str) -> None:
        if count < self._threshold:
            raise SecureError(
                "too-few",
                f"{count} of this client and its neighbours {what}, and {self._threshold} are "
                "needed: nothing is opened",
            )
