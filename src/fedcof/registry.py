"""Things that go by a name: methods, transforms, codings, kinds of summaries, steps."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any, TypeVar

from fedcof.errors import PluginWarning, SettingError
from fedcof.settings import Declaration, settings_of

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


def entry_from_text(registry: Registry[type[T]], text: str, what: str) -> T:
    """Return an entry with its settings from a text.

    Parameters
    ----------
    registry : Registry
        Of dataclasses that declare settings.
    text : str
        Its name and its settings in their order, with ``:`` between them: ``power:0.5``. Those at
        the end may be missing and have their defaults then.
    what : str
        The option or key that holds the text, for messages.

    Raises
    ------
    SettingError
        If there is no such entry, or a setting is out of range.
    """
    name, *values = text.split(":")
    try:
        kind = registry.find(name)
    except ValueError as error:
        raise SettingError(what, f"is {text!r}: {error}") from None
    declared = list(settings_of(kind).values())
    if len(values) > len(declared):
        has = ", ".join(known.name for known in declared) or "none"
        raise SettingError(what, f"is {text!r}, but the settings of {name} are: {has}")
    given = zip(declared, values, strict=False)
    try:
        return kind(**{known.name: _from_text(known, value) for known, value in given})
    except SettingError as error:
        raise SettingError(what, f"is {text!r}: {error}") from None


def _from_text(declared: Declaration, text: str) -> Any:
    try:
        return declared.kind(text) if declared.kind in (int, float) else text
    except ValueError:
        return text  # the setting's own check says what it must be


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
