"""Settings as data: every one is declared once, with its default, its range and a line of help.

A dataclass declares its fields with `setting` and calls `check_settings` when it is made. The
command line makes its options from the same fields, and `read_settings` reads them from a run
configuration, so no range and no default is written twice.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fedcof.errors import SettingError

T = TypeVar("T")

Auto = Literal["auto"]
"""What a number may be that is chosen from the summaries: ``float | Auto``."""


@dataclass(frozen=True)
class Declaration:
    """What is known of a setting.

    Parameters
    ----------
    name : str
        The field's.
    kind : type
        bool, int, float or str.
    default : object
    description : str
        One line for people.
    choices : tuple of str
        The values that a text may have; empty where any may.
    words : tuple of str
        What the value of a number may be besides a number, such as "auto".
    optional : bool
        Whether None is a value.
    minimum, above, maximum : float or None
        The range of a number; `above` is a bound that is not a value itself.
    client : bool
        Whether it shapes what a client sends.
    """

    name: str
    kind: type
    default: Any
    description: str
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    optional: bool = False
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    client: bool = False

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind in (bool, str):
            return "true or false" if self.kind is bool else "a text"
        kind = "an integer" if self.kind is int else "a finite number"
        number = f"{kind}, {self.range}" if self.range else kind
        return " or ".join([number, *map(repr, self.words)])

    @property
    def range(self) -> str:
        """The range of a number in words, empty where there is none."""
        bounds = {"at least": self.minimum, "above": self.above, "at most": self.maximum}
        return " and ".join(
            f"{words} {bound:g}" for words, bound in bounds.items() if bound is not None
        )

    def admits(self, value: Any) -> bool:
        """Return whether the setting may have a value."""
        if value is None or (self.words and isinstance(value, str)):
            return self.optional if value is None else value in self.words
        if self.kind is bool or isinstance(value, bool):
            return self.kind is bool and isinstance(value, bool)
        if self.kind is str:
            return isinstance(value, str) and (not self.choices or value in self.choices)
        if not isinstance(value, Integral if self.kind is int else Real):
            return False
        try:
            value = float(value)
        except OverflowError:  # an integer above the largest float
            return False
        return (
            math.isfinite(value)
            and (self.minimum is None or value >= self.minimum)
            and (self.above is None or value > self.above)
            and (self.maximum is None or value <= self.maximum)
        )

    def check(self, value: Any, name: str) -> Any:
        """Check a value of the setting, which is called `name` where it was given.

        Returns
        -------
        bool, int, float, str or None
            The value in Python's own type: JSON has no place for NumPy's.

        Raises
        ------
        SettingError
            If it is of another type or out of range.
        """
        if not self.admits(value):
            raise SettingError(name, f"must be {self.expected}, it is {value!r}")
        if value is None:
            return None
        return str(value) if isinstance(value, str) else self.kind(value)


def setting(
    default: T,
    description: str,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    client: bool = False,
) -> T:
    """Declare a field of a dataclass as a setting; its type is that of the annotation.

    Parameters
    ----------
    default, description, minimum, above, maximum, client
        As in `Declaration`. A ``Literal`` annotation gives the choices; beside a number, as in
        ``float | Auto``, it gives the words.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Ridge:
    ...     ridge: float = setting(0.01, "Added to the diagonal.", minimum=0)
    ...
    ...     def __post_init__(self) -> None:
    ...         check_settings(self)
    >>> Ridge(-1.0)
    Traceback (most recent call last):
    fedcof.errors.SettingError: ridge must be a finite number, at least 0, it is -1.0
    """
    bounds = {"minimum": minimum, "above": above, "maximum": maximum}
    known = {"description": description, "client": client, **bounds}
    declared: T = field(default=default, metadata={"setting": known})
    return declared


def settings_of(cls: type) -> Mapping[str, Declaration]:
    """Return the settings that a dataclass declares, by name, in their order.

    Raises
    ------
    TypeError
        If the class declares settings and is no dataclass: they would be ignored.
    """
    return _settings_of(cls)


@cache  # the annotations are texts: to evaluate them takes longer than summarizing a small client
def _settings_of(cls: Hashable) -> Mapping[str, Declaration]:
    assert isinstance(cls, type)
    if any(isinstance(value, Field) for value in vars(cls).values()):
        raise TypeError(f"{cls.__name__} declares settings: it needs @dataclass(frozen=True)")
    hints = get_type_hints(cls)
    found = {}
    for declared in fields(cls):
        if "setting" in declared.metadata:
            kinds = _alternatives(hints[declared.name])
            optional = NoneType in kinds
            literals = [kind for kind in kinds if get_origin(kind) is Literal]
            texts = tuple(text for literal in literals for text in get_args(literal))
            types = [kind for kind in kinds if kind not in (NoneType, *literals)]
            [kind] = types or [str]
            found[declared.name] = Declaration(
                declared.name,
                kind,
                declared.default,
                choices=() if types else texts,
                words=texts if types else (),
                optional=optional,
                **declared.metadata["setting"],
            )
    return MappingProxyType(found)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def check_settings(instance: Any) -> None:
    """Check every setting of a dataclass's instance, and convert it to Python's own type.

    Raises
    ------
    SettingError
        With the first that is of another type or out of range.
    """
    for name, declared in settings_of(type(instance)).items():
        object.__setattr__(instance, name, declared.check(getattr(instance, name), name))


def dashed_keys(given: Iterable[str]) -> dict[str, str]:
    """Return keys as they are given, by their spelling with ``-``.

    Raises
    ------
    SettingError
        If a key is given with ``-`` and with ``_``.
    """
    keys: dict[str, str] = {}
    for key in given:
        other = keys.setdefault(key.replace("_", "-"), key)
        if other != key:
            raise SettingError(key, f"is given twice: also as {other}")
    return keys


def read_settings(cls: type[T], given: Mapping[str, Any], *, prefix: str = "", **fixed: Any) -> T:
    """Return a dataclass from a flat mapping, such as Flower's run configuration.

    Parameters
    ----------
    cls : type
        A dataclass that declares settings.
    given : mapping of str to bool, int, float or str
        Keys are the settings' names behind the prefix, with ``-`` or ``_``. Other keys are left
        alone; settings that are not there keep their defaults.
    prefix : str, default ""
        Such as ``"train-"``.
    **fixed
        Other arguments of the dataclass.

    Raises
    ------
    SettingError
        If a value is of another type or out of range, or a key is given in both spellings; the
        whole key is named, as it is given.
    """
    keys = dashed_keys(given)
    found = {}
    for name, declared in settings_of(cls).items():
        key = keys.get(f"{prefix}{name}".replace("_", "-"))
        if key is not None and name not in fixed:
            found[name] = declared.check(given[key], key)
    try:
        return cls(**found, **fixed)
    except SettingError as error:  # of two settings that do not go together
        name = f"{prefix}{error.name}".replace("_", "-")
        raise SettingError(keys.get(name, name), error.reason) from None
