"""What is assumed of the clients, and the graph and threshold that follow from it.

Clients stand on a circle in random order, and each has the k/2 on either side as neighbours (a
Harary graph, Bell et al. 2020). It shares its secrets with these and itself, and t of the k + 1
shares open one. The circle's order is drawn from the public keys of all clients. Let c_v be the
colluders among the neighbours of an honest client v, at most s of them on one side. Where

    t > k/2 + 1 + s    for every honest v,                                              (1)

the server learns at most one sum, over more than about half of the honest clients, whatever it
tells them, even where it tells each something else:

- Honest neighbours open for v either its own mask or its key. As ``2t > k + 1 + c_v``, two sets of
  t answers share an honest client, so the server gets one of the two.
- It opens the own mask of v only from t answers, which do not all come from one side of v, as one
  side, v and the colluders of the other are fewer than t. Each honest client that answered had t
  confirmations of the set in which it survives, so its own key stays shut by the same count. So v
  shares masks that stay with honest clients on both sides of it.
- So a set of clients whose masks cancel goes all around the circle; two such sets would have
  neighbours in each other, whose masks do not cancel. There is one.

Where the circle is small, everybody is everybody's neighbour, ``2t > n + c``, and nothing is left
to chance. Otherwise the chance that (1) fails for any of n clients is below 2^-40, and the chance
that too few neighbours are left to open some secret is below 2^-30, by the tails of hypergeometric
distributions.

The order is nobody's choice, but whoever is last to name a key, or chooses whose keys count as
arrived, may try again: g tries give a chance below ``g * 2^-40``.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcof.settings import check_settings, setting


@dataclass(frozen=True)
class Terms:
    """What is assumed of the clients of a round.

    Parameters
    ----------
    colluders : float, default 0.1
        The largest share of the clients that tell the server all they see; rounded up, so that at
        least one does where it is not 0.
    dropouts : float, default 0.1
        The largest share of the clients that leave during the round, for which the round still
        gives a sum.
    least : int, default 3
        The fewest clients that a sum is opened over.
    """

    colluders: float = setting(
        0.1, "Share of the clients that tell the server all.", minimum=0, maximum=0.9
    )
    dropouts: float = setting(
        0.1, "Share of the clients that may leave in a round.", minimum=0, maximum=0.9
    )
    least: int = setting(3, "Fewest clients that a sum is opened over.", minimum=2)

    def __post_init__(self) -> None:
        check_settings(self)
