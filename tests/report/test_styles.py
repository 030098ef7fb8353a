"""Colours are told apart by all readers: a simulation of the three kinds of colour blindness."""

import numpy as np
import pytest

from fedcof.report.names import METHOD_TITLES
from fedcof.report.styles import METHOD_COLORS, VALUE_COLORS, method_style, series_styles

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
SEEN = {
    "all colours": np.eye(3),
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
GROUNDS = {"light": "#f6f7f9", "dark": "#1c2026"}
LEAST_DISTANCE = 17.0
"""In CIELAB; about 2 are just told apart side by side."""


def linear(colors):
    rgb = np.array([[int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)] for color in colors])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    t = np.clip(rgb, 0, 1) @ XYZ.T / XYZ.sum(axis=1)
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack(
        [116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1
    )


def distances(colors, seen):
    places = lab(linear(colors) @ np.transpose(seen))
    return np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(len(colors), k=1)]


@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("colors", [METHOD_COLORS, VALUE_COLORS], ids=["methods", "values"])
def test_no_two_colours_look_alike(colors, ground, seen):
    assert distances([getattr(color, ground) for color in colors], seen).min() >= LEAST_DISTANCE


def test_the_measure_finds_red_and_green_alike_without_green():
    red_and_green = ["#b02020", "#5f6b00"]
    assert distances(red_and_green, SEEN["all colours"]).min() > 40
    assert distances(red_and_green, SEEN["no green"]).min() < LEAST_DISTANCE


@pytest.mark.parametrize("ground", GROUNDS)
def test_every_colour_stands_out_of_its_ground(ground):
    """A contrast of 3 to 1, as WCAG asks of graphics."""
    colors = [getattr(color, ground) for color in METHOD_COLORS + VALUE_COLORS]
    light = (linear([*colors, GROUNDS[ground]]) @ XYZ[1]) + 0.05
    assert np.maximum(light[:-1] / light[-1], light[-1] / light[:-1]).min() >= 3


def test_every_method_has_a_colour_and_a_marker_of_its_own():
    styles = [method_style(method) for method in METHOD_TITLES]
    assert len(set(styles)) == len(styles)
    assert "*" not in {marker for _, marker in styles}  # the start of a training


@pytest.mark.parametrize("run", ["fedcof+fedadam", "fedcof+fedavg-lp", "fedcof (not pre-trained)"])
def test_run_of_training_looks_like_the_method_where_it_starts(run):
    assert method_style(run) == method_style("fedcof")


def test_several_of_one_method_are_told_apart_and_none_looks_like_the_papers():
    styles = series_styles(["fedcof"] * 8)
    assert len(set(styles)) == 8
    assert {style[:2] for style in styles} == {method_style("fedcof")}
    assert "none" not in {style.fill for style in styles}


def test_values_of_a_setting_do_not_look_like_methods():
    colors = {style.color for style in series_styles([""] * 5)}
    assert len(colors) == 5
    assert not colors & {color.light for color in METHOD_COLORS}
