"""What the server lets in: a summary is checked again once it is decoded.

`Summary` itself checks what every summary must be. Here is what this federation demands besides, of
clients that may be hostile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fedcof.errors import SettingError, SummaryError
from fedcof.methods import Method
from fedcof.summaries import Summary, check_classes
from fedcof.summaries.base import TRANSFORM
from fedcof.summaries.together import each_from_bytes
from fedcof.transforms import NO_TRANSFORM, Transform, parse

_GROWTH = 1.1
"""A client may have gained so many samples since its SuperNode said how many it has."""


@dataclass(frozen=True)
class Admission:
    """The rules of a federation for a summary.

    Parameters
    ----------
    method : Method
        Decides which kind of summary, and how many rows for a class.
    classes : tuple of int or str, default ()
        The classes of the federation; empty where any is welcome.
    max_samples : int, default 0
        The most samples that one client may claim; 0 where there is no such number.
    transform : Transform, default NO_TRANSFORM
        What every client does to its features first.
    """

    method: Method[Any]
    classes: tuple[int | str, ...] = ()
    max_samples: int = 0
    transform: Transform = NO_TRANSFORM

    def admit(self, client_id: str, data: bytes, *, announced: int | None = None) -> Summary:
        """Decode and check what came as the summary of a client.

        Parameters
        ----------
        client_id : str
        data : bytes
        announced : int, optional
            The samples that its SuperNode said it has, before it was asked for the summary.

        Raises
        ------
        SummaryError
            With the client, whatever the bytes are.
        """
        samples = {} if announced is None else {client_id: announced}
        found = self.admit_all({client_id: data}, samples)[client_id]
        if isinstance(found, SummaryError):
            raise found
        return found

    def admit_all(
        self, arrived: Mapping[str, bytes], announced: Mapping[str, int]
    ) -> dict[str, Summary | SummaryError]:
        """Decode and check what came as the summaries of clients.

        Parameters
        ----------
        arrived : mapping of str to bytes
            By client.
        announced : mapping of str to int
            As in `admit`, of the clients of which it is known.

        Returns
        -------
        dict
            Every client's summary, or why it is not let in; the clients in the order of their ids.
        """
        found = each_from_bytes(arrived)
        for client_id, summary in found.items():
            try:
                if isinstance(summary, SummaryError):
                    raise summary
                self._check(client_id, summary)
                self._check_samples(summary, announced.get(client_id))
            except SummaryError as error:
                found[client_id] = SummaryError(error.code, error.message, client_id=client_id)
            except Exception as error:  # hostile numbers may break a check in ways of their own
                reason = f"cannot be checked ({type(error).__name__})"
                found[client_id] = SummaryError("corrupt", reason, client_id=client_id)
        return found

    def _check(self, client_id: str, summary: Summary) -> None:
        expected = self.method.summary_type.kind
        if summary.kind != expected:
            raise SummaryError("kind", f"a summary of kind {summary.kind!r}, expected {expected!r}")
        if summary.client_ids != (client_id,):
            raise SummaryError("client-ids", "the summary is that of another client, or of several")
        self._check_transform(summary)
        if self.classes:
            check_classes(summary, np.array(self.classes))
        expected_lengths = self.method.summary_type.expected_lengths(
            summary.dim, self.method.client_settings
        )
        for axis, length in summary.axis_lengths.items():
            if length != expected_lengths.get(axis, length):
                raise SummaryError(
                    "shape",
                    f"the axis {axis!r} has length {length}, expected {expected_lengths[axis]}",
                )
        labels, allowed = summary.classes.tolist(), self.method.rows_per_class
        if len(set(labels)) == len(labels):
            return
        rows = max(Counter(labels).values())
        if rows > allowed:
            raise SummaryError("rows", f"{rows} rows for one class, at most {allowed} are expected")

    def _check_samples(self, summary: Summary, announced: int | None) -> None:
        if announced is not None and summary.total > _GROWTH * announced:
            raise SummaryError(
                "samples",
                f"claims {summary.total} samples, and its SuperNode announced {announced}",
            )
        if 0 < self.max_samples < summary.total:
            raise SummaryError(
                "samples",
                f"claims {summary.total} samples, at most {self.max_samples} are allowed "
                "(max-samples)",
            )

    def _check_transform(self, summary: Summary) -> None:
        """Check that the features were transformed as asked, from whatever length they had."""
        text = summary.made_by[TRANSFORM]
        if not _is_as_asked(text, self.transform, summary.dim):
            raise SummaryError(TRANSFORM, f"has the transform {text}, expected {self.transform}")


@lru_cache(maxsize=64)  # it is the same at nearly all clients
def _is_as_asked(text: str, asked: Transform, dim: int) -> bool:
    """Return whether a text names a transform, with features of length `dim` after it."""
    try:
        found = parse(text)
        return asked.bound(found.input_dim(dim)) == found
    except SettingError:
        return False
