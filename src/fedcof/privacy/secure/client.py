"""A client's half of a round."""

from __future__ import annotations

import os
from collections.abc import Callable

from fedcof.privacy.secure.keys import Directory, Identity
from fedcof.privacy.secure.ring import RingLayout, Vector
from fedcof.privacy.secure.terms import Terms


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
        raise NotImplementedError

    @property
    def opened(self) -> bool:
        """Whether the client has answered so that its vector may stand in an opened sum."""
        raise NotImplementedError

    def answer(self, data: bytes) -> bytes:
        """Return the answer to a message of the server; every message is answered once.

        Raises
        ------
        SecureError
            If the message is not the one that is awaited, or breaks a rule. It changes nothing.
        """
        raise NotImplementedError

    def forget(self) -> None:
        """Wipe what is secret, as far as Python can; the round is over for this client."""
        raise NotImplementedError
