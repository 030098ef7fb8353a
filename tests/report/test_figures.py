import io
import re
import warnings
from xml.etree import ElementTree

import pytest

from fedcof.report.figures import (
    SERIES,
    Curve,
    Point,
    accuracy_vs_communication,
    class_histograms,
    curves,
    rounds,
)
from fedcof.report.svg import inline_svg

POINTS = [Point("FedNCM", 5.9, 41.2, 0.1, (5.9, 41.5)), Point("Fed3R", 110.7, 53.0)]
LINES = [Curve("α: 0.1", [0.0, 0.1, 1.0], [50, 55, 54], [1, 0, 1], {0.1: 56.0})]
FIGURES = {
    "communication": lambda: accuracy_vs_communication(POINTS, "title"),
    "curves": lambda: curves(LINES, "shrinkage", log=True),
    "rounds": lambda: rounds([Curve("FedCOF", [1, 2, 3], [40, 50, 55], [1, 1, 0])]),
    "clients": lambda: class_histograms({"00": {"0": 5, "2": 1}, "01": {"1": 9}}, 3),
}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_svg_is_well_formed_and_takes_its_colours_from_the_page(make):
    svg = inline_svg(make(), "name", 'it says "so" & more')
    root = ElementTree.fromstring(svg)
    assert root.attrib["aria-label"] == 'it says "so" & more'
    assert "width" not in root.attrib
    assert "viewBox" in root.attrib
    assert "currentColor" in svg
    assert not re.search(r"(?:fill|stroke): #", svg)


def test_ids_are_the_figures_own_and_every_reference_is_met():
    svg = inline_svg(FIGURES["curves"](), "own", "")
    ids = re.findall(r'\sid="([^"]*)"', svg)
    assert len(ids) == len(set(ids))
    assert all(one.startswith("own-") for one in ids)
    referred = re.findall(r'url\(#([^)]*)\)|href="#([^"]*)"', svg)
    assert {a or b for a, b in referred} <= set(ids)


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_same_figure_gives_the_same_bytes(make):
    assert inline_svg(make(), "a", "") == inline_svg(make(), "a", "")
    pdfs = [io.BytesIO(), io.BytesIO()]
    for pdf in pdfs:
        make().savefig(pdf, format="pdf", metadata={"CreationDate": None})
    assert pdfs[0].getvalue() == pdfs[1].getvalue()


def test_communication_is_on_a_log_axis_with_the_papers_mark_hollow():
    axes = accuracy_vs_communication(POINTS).axes[0]
    assert axes.get_xscale() == "log"
    hollow = [line for line in axes.lines if line.get_fillstyle() == "none"]
    assert [line.get_xydata().tolist() for line in hollow] == [[[5.9, 41.5]]]


def test_band_is_one_deviation_wide():
    axes = curves(LINES, "x").axes[0]
    extent = axes.collections[0].get_paths()[0].get_extents()
    assert (extent.y0, extent.y1) == (49, 55)


def test_shrinkage_of_zero_has_a_place_on_a_log_axis():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = curves(LINES, "x", log=True).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "0.1", "1"]


def test_more_lines_than_colours_start_again():
    many = [Curve(str(index), [0, 1], [0, 1], [0, 0]) for index in range(len(SERIES) + 1)]
    lines = curves(many, "x").axes[0].lines
    assert lines[0].get_color() == lines[len(SERIES)].get_color()
