"""The backbones that go by a name."""

import difflib
from collections.abc import Callable

from fedcof.backbones.backbone import Backbone
from fedcof.backbones.squeezenet1_1 import squeezenet

BACKBONES: dict[str, Callable[[], Backbone]] = {
    "squeezenet1.1": squeezenet,
}


def get(name: str) -> Backbone:
    """Return the backbone called ``name``.

    Raises
    ------
    ValueError
        If there is none; the text lists the near names, or all of them.
    """
    if name not in BACKBONES:
        near = difflib.get_close_matches(name, BACKBONES, cutoff=0.4) or sorted(BACKBONES)
        raise ValueError(f"unknown backbone {name!r}; did you mean {' or '.join(near)}?")
    return BACKBONES[name]()
