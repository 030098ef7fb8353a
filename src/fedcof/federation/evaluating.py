"""The server's own test set, where it has one."""

from __future__ import annotations

from fedcof.federation.sources import Clients, extract
from fedcof.heads import Head


def score(head: Head, test: Clients, backbone: str) -> float:
    """Return a head's accuracy on all of a test set, a number from 0 to 1.

    Parameters
    ----------
    head : Head
    test : mapping of str to (data, labels)
        As `sources` has it; a sample of a class that the head lacks counts as wrong.
    backbone : str
        Makes features of images.

    Raises
    ------
    HeadError
        If the features or the labels do not fit the head.
    """
    right = total = 0.0
    for data, labels in test.values():
        features, kept, _ = extract(data, labels, backbone)
        right += head.score(features, kept) * len(kept)
        total += len(kept)
    return right / total
