"""What every transform has in common: it takes features and returns features, sample by sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import SettingError
from fedcof.registry import Registry, entry_from_text
from fedcof.settings import check_settings

if TYPE_CHECKING:
    from torch import Tensor

TRANSFORMS: Registry[type[Transform]] = Registry("transform")
"""Every transform by its name."""

_NONE = "none"
_LONGEST = 200
"""Characters of a text; one that comes from elsewhere may be anything."""


@dataclass(frozen=True)
class Transform(ABC):
    """What is done to a feature before any statistic; its fields are its settings.

    A sample is transformed by itself: no statistic of the data is needed, nothing is sent for it,
    and client and server do the same without having met. A new transform is a new subclass in a
    file of its own.

    ``str`` gives the canonical text, the name and the settings, such as ``power:0.5``, from which
    `parse` makes the transform again.
    """

    name: ClassVar[str]
    """The name in texts."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            TRANSFORMS.add(cls.name, cls)

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, features: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the transformed features.

        Parameters
        ----------
        features : array_like of float, shape (n, dim)

        Returns
        -------
        ndarray of float32, or of float64 for features of it, shape (n, output_dim(dim))
            Not finite in the rows of features that are not.
        """
        array = np.asarray(features)
        wide = array.dtype.kind != "f" or array.dtype.itemsize > 4
        with np.errstate(over="ignore", invalid="ignore"):  # who takes them checks them
            return self.apply(array.astype(np.float64 if wide else np.float32, copy=False))

    @abstractmethod
    def apply(self, features: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the transformed features of an array of float32 or float64, in its type."""

    def constants(self, dim: int) -> dict[str, NDArray[np.float32]]:
        """Return the arrays that an exported model needs, by name, for features of length `dim`."""
        return {}

    @abstractmethod
    def onnx_nodes(self, source: str, target: str) -> str:
        """Return the nodes that do the same in float32, in ONNX's text format.

        The operations must be alike in all opsets from 13 on. New names begin with that of the
        target: a constant ``matrix`` is ``TARGET_matrix``.
        """

    @abstractmethod
    def on_tensor(self, features: Tensor, constants: Mapping[str, Tensor]) -> Tensor:
        """Return what `apply` returns, on a tensor of torch (n, dim), by its own methods."""

    def output_dim(self, dim: int) -> int:
        """Return the length of a transformed feature, for features of length `dim`."""
        return dim

    def input_dim(self, dim: int) -> int:
        """Return the length of a feature, for transformed features of length `dim`.

        Raises
        ------
        SettingError
            If the transform takes features of any length and gives one; `bound` says which it
            takes.
        """
        return dim

    def bound(self, dim: int) -> Transform:
        """Return the transform of features of length `dim` and of no other.

        Raises
        ------
        SettingError
            If it takes features of another length.
        """
        return self

    def __str__(self) -> str:
        values = [_as_text(value) for value in astuple(self) if value is not None]
        return ":".join([self.name, *values])


@dataclass(frozen=True)
class Chain(Transform):
    """Transforms one after the other; `chain` makes it.

    Parameters
    ----------
    steps : tuple of Transform, default ()
        In the order in which they are applied. Without any, features stay as they are.
    """

    steps: tuple[Transform, ...] = ()

    def apply(self, features: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Apply every step to what the one before gave."""
        for step in self.steps:
            features = step.apply(features)
        return features

    def constants(self, dim: int) -> dict[str, NDArray[np.float32]]:
        """Return those of all steps."""
        found = {}
        for number, step in enumerate(self.steps):
            for name, value in step.constants(dim).items():
                found[f"step{number}_{name}"] = value
            dim = step.output_dim(dim)
        return found

    def onnx_nodes(self, source: str, target: str) -> str:
        """Return the nodes of all steps."""
        lines = []
        for number, step in enumerate(self.steps):
            lines.append(step.onnx_nodes(source, f"{target}_step{number}"))
            source = f"{target}_step{number}"
        return "\n".join([*lines, f"{target} = Identity ({source})"])

    def on_tensor(self, features: Tensor, constants: Mapping[str, Tensor]) -> Tensor:
        """Apply every step to what the one before gave."""
        for number, step in enumerate(self.steps):
            own = f"step{number}_"
            known = {
                name.removeprefix(own): constants[name]
                for name in constants
                if name.startswith(own)
            }
            features = step.on_tensor(features, known)
        return features

    def output_dim(self, dim: int) -> int:
        """Return the length after the last step."""
        for step in self.steps:
            dim = step.output_dim(dim)
        return dim

    def input_dim(self, dim: int) -> int:
        """Return the length before the first step."""
        for step in reversed(self.steps):
            dim = step.input_dim(dim)
        return dim

    def bound(self, dim: int) -> Transform:
        """Bind every step to the length that it gets."""
        steps = []
        for step in self.steps:
            steps.append(step.bound(dim))
            dim = step.output_dim(dim)
        return Chain(tuple(steps))

    def __str__(self) -> str:
        return "+".join(map(str, self.steps)) or _NONE


NO_TRANSFORM = Chain()
"""Features stay as they are; its text is ``none``."""


def chain(*transforms: Transform) -> Transform:
    """Return transforms one after the other as one.

    Chains among them are opened and a single transform stays what it is, so that two that do the
    same by the same steps are equal.

    Examples
    --------
    >>> from fedcof.transforms import PowerTransform, Standardize
    >>> str(chain(PowerTransform(0.5), Standardize()))
    'power:0.5+standardize'
    >>> str(chain())
    'none'
    """
    steps: list[Transform] = []
    for transform in transforms:
        steps += transform.steps if isinstance(transform, Chain) else [transform]
    return steps[0] if len(steps) == 1 else Chain(tuple(steps))


def parse(text: str) -> Transform:
    """Return the transform of a text.

    Parameters
    ----------
    text : str
        Steps with ``+`` between them, each a name and its settings in their order with ``:``
        between them; those at the end may be missing and have their defaults then. ``none`` is no
        transform.

    Raises
    ------
    SettingError
        If there is no such transform, or a setting is out of range.

    Examples
    --------
    >>> parse("power:0.5+standardize")
    Chain(steps=(PowerTransform(power=0.5), Standardize()))
    >>> str(parse("random-features:2048"))
    'random-features:2048:0:relu'
    """
    if len(text) > _LONGEST:
        raise SettingError("transform", f"has more than {_LONGEST} characters")
    if text == _NONE:
        return NO_TRANSFORM
    return chain(*(entry_from_text(TRANSFORMS, step, "transform") for step in text.split("+")))


def _as_text(value: Any) -> str:
    return str(value).replace("e+", "e")  # "+" stands between steps
