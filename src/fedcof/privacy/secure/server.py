"""The server's half of a round."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedcof.privacy.secure.keys import Directory
from fedcof.privacy.secure.ring import RingLayout
from fedcof.privacy.secure.terms import Terms


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
        raise NotImplementedError

    def receive(self, client_id: str, data: bytes) -> None:
        """Take a client's answer.

        Raises
        ------
        SecureError
            If it is not the answer that is awaited of this client, or breaks a rule; it names the
            client, and changes nothing.
        """
        raise NotImplementedError

    def advance(self) -> dict[str, bytes]:
        """End the exchange and return the messages of the next; none after the last.

        Raises
        ------
        SecureError
            If too few clients are left, code "too-few": nothing is opened, and the round is over.
        """
        raise NotImplementedError

    def waiting(self) -> list[str]:
        """Return the clients that have yet to answer in this exchange."""
        raise NotImplementedError

    @property
    def survivors(self) -> list[str]:
        """The clients whose vectors are in the sum, known from the third exchange's end on."""
        raise NotImplementedError

    def result(self) -> dict[str, NDArray[np.float64]]:
        """Return the sums over the survivors by name, once the last exchange has ended.

        Raises
        ------
        SummaryError
            If a sum is out of the range that was agreed.
        """
        raise NotImplementedError
