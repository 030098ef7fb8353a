"""What every coding has in common: it turns an array into those that travel, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcof.registry import Registry

Parts = Mapping[str, NDArray[Any]]
"""The arrays that travel in place of one, by the suffix of its name: empty, or ``.`` and a word."""

AUTO = "auto"
"""In place of a coding: the one that the method says."""

CODINGS: Registry[Coding] = Registry("coding")
"""Every coding by its name."""


class Coding(ABC):
    """From a float array to the arrays that travel, and back."""

    name: ClassVar[str]
    """The name on the wire."""
    keeps_small_eigenvalues: ClassVar[bool] = True
    """Whether a matrix over pairs of features can still be inverted when it arrives."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            CODINGS.add(cls.name, cls())

    @abstractmethod
    def encode(self, array: NDArray[np.floating[Any]], *, centred: bool = False) -> Parts:
        """Return what travels in place of an array.

        Parameters
        ----------
        array : ndarray of float
        centred : bool, default False
            Whether the rows are alike, such as means of one set of features, so that their
            differences from a common centre are smaller than they are.

        Raises
        ------
        OverflowError
            If a value is too large for the coding.
        """

    @abstractmethod
    def decode(self, parts: Parts) -> NDArray[np.floating[Any]]:
        """Return the array, in float32 or float64.

        Raises
        ------
        SummaryError
            If the parts are not what `encode` makes.
        """

    @abstractmethod
    def layout(self, shape: tuple[int, ...], *, centred: bool = False) -> Parts:
        """Return what `encode` would make of an array of this shape, without values or memory."""


def parse_codings(text: str, names: Collection[str]) -> dict[str, str]:
    """Return the name of the coding of every array.

    Parameters
    ----------
    text : str
        The name of one coding, for all arrays; or names of arrays each with a coding, such as
        ``means=int8,vectors=int4``. An array that is not named travels in float32.
    names : collection of str
        The arrays.

    Raises
    ------
    ValueError
        If there is no such coding or no such array.

    Examples
    --------
    >>> parse_codings("int8", ["means"])
    {'means': 'int8'}
    >>> parse_codings("vectors=int4", ["means", "vectors"])
    {'means': 'float32', 'vectors': 'int4'}
    """
    if "=" not in text:
        CODINGS.find(text)
        return dict.fromkeys(names, text)
    chosen = dict.fromkeys(names, "float32")
    for part in text.split(","):
        name, _, coding = part.partition("=")
        if name not in chosen:
            raise ValueError(f"no array is called {name!r}; there are {', '.join(sorted(names))}")
        CODINGS.find(coding)
        chosen[name] = coding
    return chosen
