"""Who shares masks and secrets with whom: neighbours on a circle in random order."""

from __future__ import annotations

from collections.abc import Sequence

from fedcof.privacy.secure.messages import digest


class Circle:
    """Clients on a circle in an order that all of them drew together.

    Parameters
    ----------
    statements : sequence of bytes
        What each client said of its keys: none knows the others' when it makes its own.
    neighbours : int
        How many each client has: all others, or an even number, half on either side.
    """

    def __init__(self, statements: Sequence[bytes], neighbours: int) -> None:
        seed = digest(b"circle", *statements)
        self._order = sorted(
            range(len(statements)), key=lambda client: digest(seed, statements[client])
        )
        self._place = {client: place for place, client in enumerate(self._order)}
        self._count = neighbours

    def neighbours(self, client: int) -> tuple[int, ...]:
        """Return the numbers of a client's neighbours in ascending order."""
        size = len(self._order)
        if self._count == size - 1:
            return tuple(other for other in range(size) if other != client)
        place, half = self._place[client], self._count // 2
        steps = [step for step in range(-half, half + 1) if step != 0]
        return tuple(sorted(self._order[(place + step) % size] for step in steps))
