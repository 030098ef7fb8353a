import numpy as np
import pytest

from fedcof.evaluation import calibration
from fedcof.report.confusion import confusion_matrix_figure, reliability_diagram


@pytest.mark.parametrize(("number", "texts"), [(3, 9), (21, 0), (100, 0)])
def test_all_classes_are_named_and_few_have_their_numbers(number, texts):
    confusion = np.ones((number, number), np.int64)
    figure = confusion_matrix_figure(confusion, range(number), title="a $5 head")
    axes = figure.axes[0]
    assert len(axes.get_xticklabels()) == number
    assert len(axes.texts) == texts
    assert axes.get_title(loc="left") == r"a \$5 head"


def test_names_beyond_what_fits_are_left_out_evenly():
    axes = confusion_matrix_figure(np.eye(250, dtype=np.int64), range(250)).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()][:3] == ["0", "3", "6"]


def test_long_names_keep_their_beginning_and_end():
    names = ["lesion of the left upper arm, benign", "lesion of the left upper arm, malignant"]
    axes = confusion_matrix_figure(np.eye(2, dtype=np.int64), names).axes[0]
    shown = [text.get_text() for text in axes.get_xticklabels()]
    assert len(set(shown)) == 2
    assert all(len(text) <= 24 for text in shown)


def test_a_class_without_samples_has_an_empty_row():
    figure = confusion_matrix_figure(np.array([[2, 0], [0, 0]]), ["a", "b"])
    shares = figure.axes[0].images[0].get_array()
    assert np.ma.getmaskarray(np.ma.masked_invalid(shares))[1].all()


def test_a_reliability_diagram_has_a_mark_for_every_bin_with_samples():
    found = calibration(np.array([[0.9, 0.1], [0.4, 0.6], [0.41, 0.59]]), np.array([0, 1, 0]))
    [marks] = reliability_diagram(found).axes[0].collections
    assert len(marks.get_offsets()) == (found.counts > 0).sum()


def test_a_long_title_leaves_room_for_the_matrix():
    figure = confusion_matrix_figure(np.eye(3, dtype=np.int64), "abc", title="folder/" * 60)
    figure.canvas.draw()  # matplotlib warns where nothing is left of the axes
    [axes, _] = figure.axes
    assert axes.get_position().width > 0.3
