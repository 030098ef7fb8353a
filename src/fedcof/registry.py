"""Things that go by a name: methods, codings, kinds of summaries, steps."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import TypeVar

T = TypeVar("T")


class Registry(dict[str, T]):
    """Entries by name; no name is taken twice.

    Parameters
    ----------
    what : str
        What an entry is, for messages: ``"method"``.
    plugins : str, optional
        The group of entry points under which other packages declare theirs. They are imported when
        `load_plugins` is called, or when a name is looked up that is not here.
    """

    def __init__(self, what: str, plugins: str = "") -> None:
        super().__init__()
        self._what = what
        self._plugins = plugins

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
        """Import what other packages declare; once."""
        group, self._plugins = self._plugins, ""
        for plugin in entry_points(group=group) if group else ():
            plugin.load()

    def find(self, name: str) -> T:
        """Return the entry of a name.

        Raises
        ------
        ValueError
            If there is none; near names are listed, or else all.
        """
        if name not in self:
            self.load_plugins()
        if name not in self:
            near = get_close_matches(name, self) or sorted(self)
            raise ValueError(
                f"no {self._what} is called {name!r}; did you mean {' or '.join(near)}?"
            )
        return self[name]


def _place(entry: object) -> str:
    return f"{getattr(entry, '__module__', '')}.{getattr(entry, '__qualname__', repr(entry))}"
