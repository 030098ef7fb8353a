"""A table before it is known what its columns mean."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from fedcof.data.images import ImageSource
from fedcof.errors import OwnDataError

Kind = Literal["number", "text", "vector", "image", "other"]
"""What a cell holds: a number, a text, several numbers, pixels or an encoded image, or else."""


class Table(ABC):
    """Columns by name, read when they are asked for.

    Attributes
    ----------
    name : str
        The file, for messages.
    names : sequence of str
        The columns in their order.
    kinds : mapping of str to Kind
        What each column holds.
    index : frozenset of str
        Columns that number or name the rows, such as pandas' index: never features.
    """

    name: str
    names: Sequence[str]
    kinds: Mapping[str, Kind]
    index: frozenset[str] = frozenset()

    @abstractmethod
    def read(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return columns as arrays: of numbers, of objects where texts or gaps are, 2-d vectors."""

    @abstractmethod
    def images(self, name: str) -> Sequence[ImageSource]:
        """Return a column of images, which are read when they are needed."""

    def class_names(self, name: str) -> tuple[str, ...]:
        """Return the names of the classes that a column numbers, where the source has them."""
        return ()


def nameless(names: Sequence[str]) -> frozenset[str]:
    """Return the columns that are pandas' index without a name: they number the rows."""
    return frozenset(
        name
        for position, name in enumerate(names)
        if name.startswith("__index_level_") or name == "Unnamed: 0" or (not name and not position)
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say which file cannot be read."""
    try:
        yield
    except (OwnDataError, ModuleNotFoundError, FileNotFoundError):
        raise
    except Exception as error:  # the readers raise whatever they meet in a damaged file
        why = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise OwnDataError(
            f"{path} cannot be read ({why}); it is damaged, cut short, or not of the kind that its "
            "name says"
        ) from error
