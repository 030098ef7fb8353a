"""What every coding has in common: it turns an array into those that travel, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcof.registry import Registry

Parts = Mapping[str, NDArray[Any]]
"""The arrays that travel in place of one, by the suffix of its name: empty, or ``.`` and a word."""

CODINGS: Registry[Coding] = Registry("coding")
"""Every coding by its name."""


class Coding(ABC):
    """From a float array to the arrays that travel, and back."""

    name: ClassVar[str]
    """The name on the wire."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            CODINGS.add(cls.name, cls())

    @abstractmethod
    def encode(self, array: NDArray[np.floating[Any]]) -> Parts:
        """Return what travels in place of an array.

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
    def layout(self, shape: tuple[int, ...]) -> Parts:
        """Return what `encode` would make of an array of this shape, without values or memory."""
