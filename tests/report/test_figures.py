import io
import math
import re
import warnings
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_hex

from fedcof.report.figures import (
    Curve,
    Point,
    accuracy_vs_communication,
    class_histograms,
    curves,
    rounds,
    save_pdf,
)
from fedcof.report.styles import method_style
from fedcof.report.svg import inline_svg

POINTS = [
    Point("FedNCM", 5.9, 41.2, 0.1, (5.9, 41.5), "fedncm"),
    Point("Fed3R", 110.7, 53.0, method="fed3r"),
]
LINES = [Curve("α: 0.1", [0.0, 0.1, 1.0], [50, 55, 54], [1, 0, 1], {0.1: 56.0})]
TRAINED = Curve(
    "FedCOF + FedAdam", [1, 2, 3, 4], [40, 50, 55, 57], [1] * 4, {}, "fedcof+fedadam", 2
)
FIGURES = {
    "communication": lambda: accuracy_vs_communication(POINTS, "title"),
    "curves": lambda: curves(LINES, "shrinkage", log=True),
    "rounds": lambda: rounds([TRAINED, TRAINED._replace(training_free=0)]),
    "sent": lambda: rounds([TRAINED], sent=True),
    "clients": lambda: class_histograms({"00": {"γ-ray": 5, "cat": 1}, "01": {"dog": 9}}),
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


def test_same_figure_gives_the_same_bytes(tmp_path):
    make = FIGURES["rounds"]
    assert inline_svg(make(), "a", "") == inline_svg(make(), "a", "")
    for name in "ab":
        save_pdf(make(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_pdf_embeds_truetype_fonts(tmp_path):
    # Venues refuse fonts of Type 3, which are matplotlib's default.
    figure, plain = FIGURES["curves"](), io.BytesIO()
    figure.savefig(plain, format="pdf")
    assert b"/Type3" in plain.getvalue()
    save_pdf(figure, tmp_path / "figure.pdf")
    pdf = (tmp_path / "figure.pdf").read_bytes()
    assert b"/Type3" not in pdf
    assert b"/FontFile2" in pdf


def test_communication_is_on_a_log_axis_with_the_papers_mark_hollow():
    axes = accuracy_vs_communication(POINTS).axes[0]
    assert axes.get_xscale() == "log"
    hollow = [line for line in axes.lines if line.get_fillstyle() == "none"]
    assert [line.get_xydata().tolist() for line in hollow] == [[[5.9, 41.5]]]


def test_method_is_drawn_alike_whatever_stands_beside_it():
    alone, beside = (
        accuracy_vs_communication(points).axes[0] for points in (POINTS[1:], POINTS[::-1])
    )
    lines = alone.lines[0], beside.lines[-1], rounds([TRAINED]).axes[0].lines[0]
    styles = [(to_hex(line.get_color()), line.get_marker()) for line in lines]
    assert styles == [method_style(name) for name in ("fed3r", "fed3r", "fedcof")]


def test_band_is_one_deviation_wide():
    axes = curves(LINES, "x").axes[0]
    extent = axes.collections[0].get_paths()[0].get_extents()
    assert (extent.y0, extent.y1) == (49, 55)


def test_one_seed_has_no_band():
    assert not curves([LINES[0]._replace(deviation=[math.nan] * 3)], "x").axes[0].collections


def test_shrinkage_of_zero_has_a_place_on_a_log_axis():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = curves(LINES, "x", log=True).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "0.1", "1"]


def test_rounds_before_training_are_dotted_and_a_star_is_where_it_starts():
    solid, dotted, star = rounds([TRAINED]).axes[0].lines
    assert solid.get_xdata().tolist() == [2, 3, 4]
    assert (dotted.get_linestyle(), dotted.get_xdata().tolist()) == (":", [1, 2])
    assert (star.get_marker(), star.get_xydata().tolist()) == ("*", [[2, 50]])


def test_participation_without_training_is_one_line_with_markers():
    (line,) = rounds([TRAINED._replace(training_free=0)]).axes[0].lines
    assert line.get_xdata().tolist() == [1, 2, 3, 4]
    assert line.get_marker() not in ("", "None")


def test_classes_are_called_by_their_names_and_numbers_go_as_numbers():
    counts = {"00": {"dog": 1, "10": 2}, "01": {"9": 3, "Cat": 1}}
    axes = class_histograms(counts).axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["9", "10", "Cat", "dog"]


def test_long_names_of_clients_do_not_run_into_each_other():
    counts = {f"hospital of the town {index}": {"a": 1} for index in range(6)}
    labels = [tick.get_text() for tick in class_histograms(counts).axes[0].get_xticklabels()]
    assert sum(map(len, labels)) <= 48


def test_too_many_classes_to_name_are_counted():
    counts = {"00": {f"class {index:03}": 1 for index in range(100)}}
    assert class_histograms(counts).axes[0].get_ylabel() == "100 classes, class 000 to class 099"


@pytest.mark.parametrize("clients", [7, 12, 15, 16, 17, 100])
def test_short_names_of_clients_stay_whole_however_many_there_are(clients):
    counts = {f"s{index}": {"a": 1} for index in range(clients)}
    labels = [tick.get_text() for tick in class_histograms(counts).axes[0].get_xticklabels()]
    assert set(labels) <= counts.keys()
    assert 4 <= len(labels) <= 8
