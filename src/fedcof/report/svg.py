"""A figure as SVG inside a page: its colours follow the page's, its text is the page's."""

from __future__ import annotations

import io
import re
from html import escape

import matplotlib as mpl
from matplotlib.figure import Figure

from fedcof.report.figures import GRID, INK
from fedcof.report.styles import METHOD_COLORS, VALUE_COLORS

SERIES = METHOD_COLORS + VALUE_COLORS
"""The colours that the page defines, as ``--series-0`` and so on."""
_VARIABLES = {INK: "currentColor", GRID: "var(--grid)"} | {
    color.light: f"var(--series-{index})" for index, color in enumerate(SERIES)
}


def inline_svg(figure: Figure, name: str, description: str) -> str:
    """Return a figure as an ``svg`` element.

    Parameters
    ----------
    figure : Figure
    name : str
        Unique on the page: the ids inside begin with it.
    description : str
        For who cannot see it.
    """
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(?<=\sid=")|(?<=url\(#)|(?<=href="#)', f"{name}-", svg)
    for color, variable in _VARIABLES.items():
        svg = svg.replace(color, variable)
    tag, body = svg.split(">", 1)
    tag = re.sub(r'\s(?:width|height|version)="[^"]*"', "", tag)
    return f'{tag} role="img" aria-label="{escape(description)}">{body}'
