"""The summaries of many clients, read at once: as rows of one, they are checked in one pass.

Of a client with a few means, checking takes far longer than reading. So what thousands of clients
sent is put together before it is checked, and taken apart again; only where something is wrong with
one of them each is checked for itself, which finds who it is and what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import SummaryError
from fedcof.summaries.base import Summary, checked, from_bytes, read_fields, spreads
from fedcof.summaries.client_rows import ClientRows


def each_from_bytes(data: Mapping[str, bytes]) -> dict[str, Summary | SummaryError]:
    """Read what came as the summaries of clients; what breaks a rule costs its own client alone.

    Parameters
    ----------
    data : mapping of str to bytes
        By client. That a summary is that of this client is not checked.

    Returns
    -------
    dict
        Every client's summary, or what is wrong with it.
    """
    names = sorted(data)
    try:
        together = from_bytes_together([data[name] for name in names])
        parts = [own for part in together for own in part.apart()]
        if [part.client_ids for part in parts] == [(name,) for name in names]:
            return dict(zip(names, parts, strict=True))
    except Exception:  # hostile bytes may break a decoder in ways of their own
        pass
    return {name: _from_bytes(data[name]) for name in names}


def _from_bytes(data: bytes) -> Summary | SummaryError:
    try:
        return from_bytes(data)
    except SummaryError as error:
        return error
    except Exception as error:
        return SummaryError("corrupt", f"cannot be decoded ({type(error).__name__})")


def from_bytes_together(data: Sequence[bytes]) -> list[Summary]:
    """Read the summaries of several clients, as `from_bytes` would one by one.

    Parameters
    ----------
    data : sequence of bytes
        What the clients sent, in the order of their ids.

    Returns
    -------
    list of Summary
        One of all clients, if they can be checked at once; else one each.

    Raises
    ------
    SummaryError
        If one breaks a rule; which one it is and what is wrong, `from_bytes` finds.
    """
    read = [read_fields(one) for one in data]
    forms = {_form(kind, fields) for kind, fields in read}
    if len(forms) == 1 and None not in forms:
        rows = np.array([len(fields["classes"]) for _, fields in read])
        longest = max(_longest(fields["classes"]) for _, fields in read)
        if not spreads(longest, int(rows.sum()), sum(map(len, data))):
            return [_together([fields for _, fields in read], read[0][0], rows)]
    return [checked(kind, fields) for kind, fields in read]


def _together(
    read: Sequence[Mapping[str, Any]], kind: type[Summary], rows: NDArray[np.int64]
) -> Summary:
    arrays: dict[str, Any] = {
        name: np.concatenate([fields[name] for fields in read])
        for name in ("classes", "counts", *kind.axes)
    }
    names = tuple(name for fields in read for name in fields["client_ids"])
    return kind(client_ids=names, rows_per_client=rows, origin=read[0]["origin"], **arrays)


def _form(kind: type[Summary], fields: Mapping[str, Any]) -> tuple[object, ...] | None:
    """Return what clients' summaries must have in common to be checked at once.

    None if it is not that of one client, or of a kind that is checked client by client.
    """
    names = ("classes", "counts", *kind.axes)
    if not (issubclass(kind, ClientRows) and kind.checked_by_row):
        return None
    if fields.keys() != {"client_ids", "origin", *names} or len(fields["client_ids"]) != 1:
        return None
    arrays = [fields[name] for name in names]
    if len({array.shape[:1] for array in arrays}) > 1 or not all(map(np.ndim, arrays)):
        return None
    types = ["texts" if array.dtype.kind == "U" else array.dtype.str for array in arrays]
    return (kind, repr(fields["origin"]), *types, *(array.shape[1:] for array in arrays))


def _longest(classes: NDArray[Any]) -> int:
    """Return the length of the longest name of a class; 0 where they are numbers."""
    return classes.dtype.itemsize // 4 if classes.dtype.kind == "U" else 0
