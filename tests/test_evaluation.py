import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from fedcof.errors import HeadError
from fedcof.evaluation import calibration, evaluate


def test_a_small_case_by_hand():
    scores = [[3, 1, 0], [0, 2, 1], [0, 2, 1], [1, 0, 3]]
    found = evaluate(["ant", "bee", "cat"], scores, ["ant", "bee", "cat", "cat"])
    assert found.accuracy == 0.75
    assert found.balanced_accuracy == pytest.approx((1 + 1 + 0.5) / 3)
    assert found.support.tolist() == [1, 1, 2]
    assert found.precision.tolist() == [1, 0.5, 1]
    assert found.recall.tolist() == [1, 1, 0.5]
    assert found.confusion.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert found.confusions() == [("cat", "bee", 1)]
    assert found.top_5 is None
    assert found.calibration is None


@given(st.integers(0, 1000), st.integers(6, 12))
def test_the_numbers_are_scikit_learns(seed, classes):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=40)
    scores = rng.normal(size=(40, classes))
    found = evaluate(np.arange(classes), scores, labels)
    predicted = scores.argmax(axis=1)
    assert found.accuracy == metrics.accuracy_score(labels, predicted)
    everything = np.arange(classes)
    top_5 = metrics.top_k_accuracy_score(labels, scores, k=5, labels=everything)
    assert found.top_5 == pytest.approx(top_5)
    recall = metrics.recall_score(
        labels, predicted, labels=np.unique(labels), average="macro", zero_division=0
    )
    assert found.balanced_accuracy == pytest.approx(recall)
    assert found.confusion.sum() == 40


def test_samples_of_a_class_that_the_head_does_not_know_count_as_wrong_and_are_named():
    scores = np.eye(6)[[0, 1, 2, 3]]
    found = evaluate([*"abcdef"], scores, [*"abxy"], probabilistic=True)
    assert found.unknown.tolist() == ["x", "y"]
    assert found.untested.tolist() == ["c", "d", "e", "f"]
    assert (found.accuracy, found.balanced_accuracy, found.top_5) == (0.5, 0.5, 0.5)
    assert found.confusions() == [("x", "c", 1), ("y", "d", 1)]
    assert found.calibration.counts.sum() == 2


def test_a_class_without_samples_or_never_predicted_has_no_number_instead_of_zero():
    found = evaluate([0, 1, 2], [[1, 0, 0], [1, 0, 0]], [0, 1])
    assert found.precision[1:] == pytest.approx([np.nan, np.nan], nan_ok=True)
    assert found.recall == pytest.approx([1, 0, np.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["0", "1"], "texts, such as '0', those of the head integers, such as 0"),
        ([7, 8], "no label of the data, such as 7, is one of the head's classes, such as 0"),
        ([0], "1 labels for 2 samples"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(HeadError, match=message):
        evaluate([0, 1], np.eye(2), labels)


def test_calibration_by_hand():
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.3, 0.7], [0.5, 0.5]])
    found = calibration(probabilities, np.array([0, 1, 1, 0]))
    assert found.counts.sum() == 4
    assert found.counts[[13, 10, 7]].tolist() == [2, 1, 1]
    assert found.accuracy[13] == 0.5
    assert found.expected_calibration_error == pytest.approx((2 * 0.4 + 0.3 + 0.5) / 4)
    assert found.log_loss == pytest.approx(-np.log([0.9, 0.1, 0.7, 0.5]).mean())
    assert np.isnan(found.confidence[0])


def test_the_temperature_is_the_one_that_the_scores_were_multiplied_by():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(3), size=4000)
    index = (probabilities.cumsum(axis=1) > rng.random((4000, 1))).argmax(axis=1)
    too_sure = probabilities**3 / (probabilities**3).sum(axis=1, keepdims=True)
    found = calibration(too_sure, index)
    assert found.temperature == pytest.approx(3, rel=0.05)
    assert found.fitted_log_loss == pytest.approx(calibration(probabilities, index).log_loss, 1e-3)
