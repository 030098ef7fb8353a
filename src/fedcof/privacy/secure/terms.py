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

Up to 128 clients, everybody is everybody's neighbour, ``2t > n + c``, and nothing is left
to chance. Otherwise the chance that (1) fails for any of n clients is below 2^-40, and the chance
that too few neighbours are left to open some secret is below 2^-30, by the tails of hypergeometric
distributions.

The order is nobody's choice, but whoever is last to name a key, or chooses whose keys count as
arrived, may try again: g tries give a chance below ``g * 2^-40``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from fedcof.errors import SecureError
from fedcof.settings import check_settings, setting

SECURITY_BITS = 40
CORRECTNESS_BITS = 30

_COMPLETE_UP_TO = 128
"""Up to so many clients, all are neighbours: it costs no more than 1,000 clients on a circle do."""


@dataclass(frozen=True)
class Terms:
    """What is assumed of the clients of a round.

    Parameters
    ----------
    colluders : float, default 0.1
        The largest share of the clients that tell the server all they see; rounded up, so that at
        least one does where it is not 0.
    dropouts : float, default 0.05
        The largest share of the clients that leave during the round, for which the round still
        gives a sum.
    least : int, default 3
        The fewest clients that a sum is opened over.
    """

    colluders: float = setting(
        0.1, "Share of the clients that tell the server all.", minimum=0, maximum=0.9
    )
    dropouts: float = setting(
        0.05, "Share of the clients that may leave in a round.", minimum=0, maximum=0.9
    )
    least: int = setting(3, "Fewest clients that a sum is opened over.", minimum=2)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class Plan:
    """The graph and the threshold of a round.

    Parameters
    ----------
    neighbours : int
        Of every client, k.
    threshold : int
        How many of a client's neighbours and itself open a secret of it, t.
    """

    neighbours: int
    threshold: int

    def is_safe(self, clients: int, terms: Terms) -> bool:
        """Return whether the module's condition (1) holds, but for a chance of 2^-40."""
        if not 0 < self.threshold <= self.neighbours + 1 <= clients:
            return False
        colluders = math.ceil(terms.colluders * clients)
        if self.neighbours == clients - 1:
            return 2 * self.threshold > clients + colluders
        if self.neighbours % 2:
            return False
        half = self.neighbours // 2
        most = max(0, self.threshold - half - 1)
        return _chance(clients, colluders, half, most) * 2 * clients <= 2.0**-SECURITY_BITS


@lru_cache
def plan(clients: int, terms: Terms) -> Plan:
    """Return the smallest graph that is safe and outlasts the drop-outs.

    Parameters
    ----------
    clients : int
    terms : Terms

    Raises
    ------
    SecureError
        If there is none.

    Examples
    --------
    >>> plan(10, Terms())
    Plan(neighbours=9, threshold=6)
    >>> plan(1000, Terms())
    Plan(neighbours=104, threshold=81)
    """
    for neighbours in range(2, clients - 1, 2) if clients > _COMPLETE_UP_TO else ():
        half = neighbours // 2
        for threshold in range(half + 1, neighbours + 2):
            made = Plan(neighbours, threshold)
            if made.is_safe(clients, terms):
                break
        else:
            continue
        if _falls_short(clients, terms, made) <= 2.0**-CORRECTNESS_BITS:
            return made
    colluders = math.ceil(terms.colluders * clients)
    made = Plan(clients - 1, (clients + colluders) // 2 + 1)
    left = clients - math.floor(terms.dropouts * clients)
    if clients < terms.least:
        raise SecureError(
            "too-few",
            f"{clients} clients, and the sum is over {terms.least} at least: call more clients",
        )
    if left < made.threshold:
        raise SecureError(
            "too-few",
            f"{clients} clients of which {colluders} may collude need {made.threshold} to stay, "
            f"and {left} would be left after the drop-outs that are allowed for: call more "
            "clients, or assume fewer colluders or drop-outs",
        )
    return made


def _falls_short(clients: int, terms: Terms, made: Plan) -> float:
    """Return a bound on the chance that some secret has too few holders left."""
    gone = math.floor(terms.dropouts * clients)
    spare = made.neighbours + 1 - made.threshold
    survivor = _chance(clients, gone, made.neighbours, spare + 1)
    # A drop-out does not hold its own share, and is not among its neighbours.
    dropout = _chance(clients, gone - 1, made.neighbours, spare) if gone else 0.0
    return (clients - gone) * survivor + gone * dropout


@lru_cache(maxsize=4096)
def _chance(clients: int, marked: int, drawn: int, at_least: int) -> float:
    """Return the chance that of some of a client's fellows drawn, so many are marked."""
    from scipy.stats import hypergeom  # slow

    return float(hypergeom.sf(at_least - 1, clients - 1, marked, drawn))
