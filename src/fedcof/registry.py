"""Things that go by a name: methods, transforms, codings, kinds of summaries, steps."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import TypeVar

from fedcof.errors import PluginWarning

T = TypeVar("T")

_PLUGINS = "fedcof.methods"
"""The group of entry points under which other packages declare the modules that add entries."""


class Registry(dict[str, T]):
    """Entries by name; no name is taken twice.

    The plugins of other packages are imported when a name is looked up that is not here.

    Parameters
    ----------
    what : str
        What an entry is, for messages: ``"method"``.
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def add(self, name: str, entry: T) -> None:
        """Add an entry.

        Raises
        ------
        ValueError
            If the name is taken by an entry of another definition.
        """
        if name in self and _place(self[name]) != _place(entry):
            raise ValueError(
                f"two {self._what}s are called {name!r}: {_place(self[name])} and {_place(entry)}"
            )
        self[name] = entry

    def load_plugins(self) -> None:
        """Import the plugins, which add their entries; a broken one is left out, with a warning."""
        _load_plugins()

    def knows(self, name: str) -> bool:
        """Return whether there is an entry of a name, in a plugin perhaps."""
        if name not in self:
            self.load_plugins()
        return name in self

    def find(self, name: str) -> T:
        """Return the entry of a name.

        Raises
        ------
        ValueError
            If there is none; near names are listed, or else all.
        """
        if not self.knows(name):
            near = get_close_matches(name, self) or sorted(self)
            raise ValueError(
                f"no {self._what} is called {name!r}; did you mean {' or '.join(near)}?"
            )
        return self[name]


@cache
def _load_plugins() -> None:
    for plugin in entry_points(group=_PLUGINS):
        try:
            plugin.load()
        except Exception as error:  # other people's code raises whatever it does
            warnings.warn(
                f"the plugin {plugin.name} = {plugin.value!r} cannot be imported and is left out: "
                f"{type(error).__name__}: {error}",
                PluginWarning,
                stacklevel=4,
            )


def _place(entry: object) -> str:
    definition = entry if hasattr(entry, "__qualname__") else type(entry)
    return f"{definition.__module__}.{definition.__qualname__}"


def import_modules(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, so that a new file's entries are known without an edit."""
    for module in iter_modules(path):
        import_module(f"{package}.{module.name}")
