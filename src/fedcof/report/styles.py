"""One colour and one marker a method, the same in every figure.

The colours of `METHOD_COLORS` are told apart by readers who do not see red, green or blue as others
do (a test simulates the three), each also by its contrast to the ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple
from zlib import crc32


class Color(NamedTuple):
    """A colour on a light ground, and the one in its place on a dark ground."""

    light: str
    dark: str


class Style(NamedTuple):
    """How a series is drawn.

    Parameters
    ----------
    color : str
        For a light ground; `inline_svg` lets the page choose.
    marker : str
        As matplotlib names it.
    fill : str
        Which part of the marker is filled; "none" is for the paper's numbers.
    dash : str
        As matplotlib names it; dotted is for the rounds before training.
    framed : bool
        Whether the marker has a dark edge.
    """

    color: str
    marker: str
    fill: str = "full"
    dash: str = "-"
    framed: bool = False


METHOD_COLORS = (
    Color("#0059a1", "#3788c2"),
    Color("#ae4100", "#ff8b42"),
    Color("#008452", "#42db9f"),
    Color("#660771", "#be94ff"),
    Color("#b88600", "#ffdb56"),
    Color("#2c96db", "#aedfff"),
    Color("#d66aa0", "#fd95c7"),
    Color("#60696d", "#848f92"),
    Color("#7f070c", "#de503b"),
)
VALUE_COLORS = (
    Color("#2f094e", "#fff7b7"),
    Color("#414c83", "#d6cc44"),
    Color("#10707b", "#61bb74"),
    Color("#38a259", "#3c849c"),
    Color("#7f9204", "#806fbf"),
)
"""For lines that are values of a setting: in their order from dark to light, or light to dark."""

_METHODS = (
    "fedcof",
    "fed3r",
    "fedncm",
    "fedcof-oracle",
    "ccvr",
    "fedcof-diagonal",
    "fedcof-spherical",
    "fedavg",
    "fedadam",
)
_OTHERS = (
    "fedcof-sketch",
    "fedcof-pooled",
    "fedcof-within",
    "fedcof-gated",
    "fed3r-lossless",
    "afl",
    "fedcgs",
    "gh-lda",
    "gh-qda",
    "fishermix",
    "fedpft-spherical",
    "fedpft-diagonal",
    "stsa-e",
    "fedran",
    "slot-align",
    "fedprox",
    "fedyogi",
    "fedadagrad",
    "pfpt",
    "fedcof-linear-sketch",
)
_MARKERS = "osD^vP<>X"
_SPARE_MARKERS = "phd8"  # the star is where training starts
_FILLS = ("full", "left", "bottom", "right", "top")
_DASHES = ("-", "--", "-.")


def method_style(method: str) -> tuple[str, str]:
    """Return the colour and the marker of a method, or of a run of training by where it starts.

    A method that is none of the package has one by its name.

    Examples
    --------
    >>> method_style("fedcof+fedadam") == method_style("fedcof")
    True
    """
    name = method.partition("+")[0].partition(" (")[0]
    name = name.removesuffix("-lp").removesuffix("-pt")
    if name in _METHODS:
        index = _METHODS.index(name)
        return METHOD_COLORS[index].light, _MARKERS[index]
    others = [(color.light, mark) for mark, color in product(_SPARE_MARKERS, METHOD_COLORS)]
    known = name in _OTHERS
    return others[_OTHERS.index(name) if known else crc32(name.encode()) % len(others)]


def series_styles(methods: Sequence[str]) -> list[Style]:
    """Return the styles of the series of a figure.

    Parameters
    ----------
    methods : sequence of str
        The method of every series: several of one method differ in what of the marker is filled or
        framed, and in the dashes. An empty one is a value of a setting, whose colours are not those
        of methods.
    """
    styles = []
    for index, method in enumerate(methods):
        if not method:
            color = VALUE_COLORS[index % len(VALUE_COLORS)].light
            styles.append(Style(color, _MARKERS[index % len(_MARKERS)]))
            continue
        color, marker = method_style(method)
        before = sum(method_style(other) == (color, marker) for other in methods[:index] if other)
        again, fill = divmod(before, len(_FILLS))
        dash = _DASHES[before % len(_DASHES)]
        styles.append(Style(color, marker, _FILLS[fill], dash, framed=again > 0))
    return styles
