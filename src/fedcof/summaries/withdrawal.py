"""Taking a client out of a merged summary: the inverse of ``merge``.

A statistic that keeps the rows of every client gives one back exactly. A sum keeps no client apart:
what the client sent is subtracted, where it is at hand, and rounding stays.
"""

from __future__ import annotations

from typing import TypeVar

from fedcof.errors import SummaryError, first_of
from fedcof.summaries.base import Summary

S = TypeVar("S", bound=Summary)

_NAMED_CLIENTS = 10


def withdraw(merged: S, client_id: str, own: S | None = None) -> S:
    """Return a merged summary without one client, as if it had never been merged.

    Parameters
    ----------
    merged : Summary
        What ``merge`` gave.
    client_id : str
        The client that leaves; it has a name.
    own : Summary, optional
        What this client sent. A statistic that adds up (`Gram`, `ClassCovariances`) needs it, and
        is then that of the others up to rounding: each number within a few units in the last place
        of that number in `merged`. Where that is too little, merge the others' summaries again.

    Returns
    -------
    Summary
        Without `own`, equal to the merged summary of the others bit for bit, provided that all
        were of one data type, as all are that came over the wire. Its origin stays that of all.

    Raises
    ------
    SummaryError
        If there is no such client, or nobody else; or if the statistic is a sum and `own` is not
        given, or cannot be what this client sent.

    Examples
    --------
    >>> import fedcof
    >>> north = fedcof.summarize([[1.0, 0.0]], ["cat"], client_id="north")
    >>> south = fedcof.summarize([[2.0, 0.0]], ["cat"], client_id="south")
    >>> withdraw(fedcof.merge([north, south]), "north").means
    array([[2., 0.]])
    """
    if not client_id or client_id not in merged.client_ids:
        named = [repr(name) for name in merged.client_ids if name]
        raise SummaryError(
            "unknown-client",
            f"there is no client {client_id!r} to withdraw; there are "
            + (first_of(named, _NAMED_CLIENTS) or "none with a name"),
        )
    if len(merged.client_ids) == 1:
        raise SummaryError(
            "empty", "is the only one here: nothing would be left", client_id=client_id
        )
    if own is None:
        return merged._without(client_id)
    if not isinstance(own, type(merged)) or own.client_ids != (client_id,):
        raise SummaryError(
            "client-ids",
            f"own is a summary of kind {own.kind!r} of {own.client_ids}, not what this client sent",
            client_id=client_id,
        )
    return merged._minus(own)
