"""What a head gets right: the scores of labelled samples as the numbers that people judge it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax

from fedcof.errors import HeadError
from fedcof.labels import as_labels
from fedcof.rejection import Rejection

_BINS = 15
_REJECTED = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Shares of the samples of known classes, at the points of a `RejectionCurve`."""
_LARGEST_LOG = 6.0
"""Temperatures are fitted between e^-6 and e^6."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Whether probabilities are as high as the share of samples that they get right.

    Parameters
    ----------
    log_loss : float
        The mean of minus the logarithm of the probability of the true class.
    expected_calibration_error : float
        The mean distance of confidence and accuracy over the samples of 15 bins of equal width
        (Guo et al., 2017), from 0 to 1.
    counts : ndarray of int, shape (15,)
        Samples whose confidence, the probability of the predicted class, falls into each bin.
    confidence, accuracy : ndarray of float, shape (15,)
        Their mean confidence, and the share of them that is right; NaN in an empty bin.
    temperature : float
        What the logarithms of the probabilities are best divided by: above 1, they are too sure.
    fitted_log_loss : float
        The log loss after that division.
    """

    log_loss: float
    expected_calibration_error: float
    counts: NDArray[np.int64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    temperature: float
    fitted_log_loss: float


@dataclass(frozen=True, eq=False)
class RejectionCurve:
    """What is gained by rejecting the samples that are least familiar.

    Parameters
    ----------
    auroc : float or None
        How often a sample of a class that the head does not know is less familiar than one of a
        known class; None without samples of both.
    rejected : ndarray of float64, shape (points,)
        The shares of the samples of known classes that are rejected.
    accuracy : ndarray of float64, shape (points,)
        Of the samples of known classes that are left.
    unknown_rejected : ndarray of float64, shape (points,)
        The shares of the samples of unknown classes that are rejected with them; NaN without any.
    """

    auroc: float | None
    rejected: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    unknown_rejected: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How a head does on labelled samples.

    Parameters
    ----------
    classes : ndarray of int or str, shape (classes,)
        The head's and those that only the samples have, in ascending order.
    accuracy : float
        The share of the samples that is right.
    balanced_accuracy : float
        The mean recall of the classes that have samples.
    top_5 : float or None
        The share of the samples whose class is among the 5 highest scores; None where the head has
        no more than 5 classes.
    support : ndarray of int64, shape (classes,)
        The samples of every class.
    precision, recall : ndarray of float, shape (classes,)
        NaN for a class that is never predicted, or that has no sample.
    confusion : ndarray of int64, shape (classes, classes)
        The samples of a class, by row, that are taken for another, by column.
    unknown : ndarray, shape (u,)
        The classes that the head does not know; their samples count as wrong.
    untested : ndarray, shape (v,)
        The classes without a sample.
    calibration : Calibration or None
        Of the samples of known classes; None where the head has no probabilities.
    rejection : RejectionCurve or None
        None where the head tells no unknown classes.
    """

    classes: NDArray[Any]
    accuracy: float
    balanced_accuracy: float
    top_5: float | None
    support: NDArray[np.int64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    confusion: NDArray[np.int64]
    unknown: NDArray[Any]
    untested: NDArray[Any]
    calibration: Calibration | None = None
    rejection: RejectionCurve | None = None

    @property
    def samples(self) -> int:
        """The number of samples."""
        return int(self.support.sum())

    def confusions(self) -> list[tuple[Any, Any, int]]:
        """Return every true class, what it was taken for and how often; the most frequent first.

        Examples
        --------
        >>> evaluate([0, 1], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1]).confusions()
        [(1, 0, 1)]
        """
        wrong = self.confusion - np.diag(np.diag(self.confusion))
        rows, columns = np.nonzero(wrong)
        order = np.argsort(-wrong[rows, columns], kind="stable")
        labels = self.classes.tolist()
        return [
            (labels[row], labels[column], int(wrong[row, column]))
            for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True)
        ]


def evaluate(
    classes: ArrayLike,
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    probabilistic: bool = False,
    rejection: Rejection | None = None,
) -> Evaluation:
    """Return what the scores of a head get right.

    Parameters
    ----------
    classes : array_like of int or str, shape (classes,)
        The head's, in ascending order.
    scores : array_like of float, shape (n, classes)
        As the head's `decision_function` returns them.
    labels : array_like of int or str, shape (n,)
        The true classes.
    probabilistic : bool, default False
        Whether the softmax of the scores are probabilities.
    rejection : Rejection, optional
        The head's.

    Raises
    ------
    HeadError
        If there is no sample, there are not as many labels as scores, or no label is one of the
        classes.

    Examples
    --------
    >>> found = evaluate(["cat", "dog"], [[2, 1], [0, 3], [1, 0]], ["cat", "dog", "dog"])
    >>> round(found.accuracy, 3), found.balanced_accuracy
    (0.667, 0.75)
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    known, scored, truth = np.asarray(classes), np.asarray(scores), as_labels(labels)
    _check(known, scored, truth)
    names = np.union1d(known, truth)
    index = np.searchsorted(names, truth)
    predicted = np.searchsorted(names, known)[scored.argmax(axis=1)]
    everything = np.arange(len(names))
    precision, recall, _, support = precision_recall_fscore_support(
        index, predicted, labels=everything, zero_division=np.nan
    )
    tested = support > 0
    is_known = np.isin(truth, known)
    position = np.searchsorted(known, truth[is_known])
    return Evaluation(
        classes=names,
        accuracy=float(np.mean(predicted == index)),
        balanced_accuracy=float(recall[tested].mean()),
        top_5=None if len(known) <= 5 else _top_5(scored[is_known], position) * is_known.mean(),
        support=support,
        precision=precision,
        recall=recall,
        confusion=confusion_matrix(index, predicted, labels=everything),
        unknown=np.setdiff1d(names, known),
        untested=names[~tested],
        calibration=(
            calibration(softmax(scored[is_known], axis=1), position) if probabilistic else None
        ),
        rejection=(
            None
            if rejection is None
            else rejection_curve(rejection.familiarity(scored), predicted == index, is_known)
        ),
    )


def _check(classes: NDArray[Any], scores: NDArray[Any], labels: NDArray[Any]) -> None:
    if len(labels) != len(scores) or len(labels) == 0:
        raise HeadError(f"{len(labels)} labels for {len(scores)} samples")
    if (labels.dtype.kind == "U") != (classes.dtype.kind == "U"):
        raise HeadError(
            f"the labels of the data are {_kind(labels)}, such as {labels[0].item()!r}, those of "
            f"the head {_kind(classes)}, such as {classes[0].item()!r}; write them alike"
        )
    if not np.isin(labels, classes).any():
        raise HeadError(
            f"no label of the data, such as {labels[0].item()!r}, is one of the head's classes, "
            f"such as {classes[0].item()!r}"
        )


def _kind(labels: NDArray[Any]) -> str:
    return "texts" if labels.dtype.kind == "U" else "integers"


def _top_5(scores: NDArray[Any], index: NDArray[np.int64]) -> float:
    from sklearn.metrics import top_k_accuracy_score

    return float(top_k_accuracy_score(index, scores, k=5, labels=np.arange(scores.shape[1])))


def calibration(probabilities: NDArray[np.floating[Any]], index: NDArray[np.int64]) -> Calibration:
    """Return how well probabilities are calibrated.

    Parameters
    ----------
    probabilities : ndarray of float, shape (n, classes)
    index : ndarray of int64, shape (n,)
        The true class of every sample.
    """
    from sklearn.metrics import log_loss

    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == index
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    counts = np.bincount(bins, minlength=_BINS)
    with np.errstate(invalid="ignore"):
        mean_confidence = np.bincount(bins, confidence, _BINS) / counts
        accuracy = np.bincount(bins, right, _BINS) / counts
    gaps = np.nan_to_num(np.abs(mean_confidence - accuracy))
    temperature, fitted_log_loss = _best_temperature(probabilities, index)
    return Calibration(
        log_loss=float(log_loss(index, probabilities, labels=np.arange(probabilities.shape[1]))),
        expected_calibration_error=float(counts @ gaps / counts.sum()),
        counts=counts,
        confidence=mean_confidence,
        accuracy=accuracy,
        temperature=temperature,
        fitted_log_loss=fitted_log_loss,
    )


def rejection_curve(
    familiarity: NDArray[np.float64], right: NDArray[np.bool_], known: NDArray[np.bool_]
) -> RejectionCurve:
    """Return what is gained by rejecting the samples that are least familiar.

    Parameters
    ----------
    familiarity : ndarray of float64, shape (n,)
        As `fedcof.rejection.Rejection.familiarity` returns it.
    right : ndarray of bool, shape (n,)
        Whether the prediction is right.
    known : ndarray of bool, shape (n,)
        Whether the sample is of a class that the head knows; one is at least.
    """
    from sklearn.metrics import roc_auc_score

    rejected = np.asarray(_REJECTED)
    thresholds = np.quantile(familiarity[known], rejected)
    accuracy, unknown_rejected = [], []
    for threshold in thresholds:
        below = familiarity < threshold
        accuracy.append(right[known & ~below].mean())
        unknown_rejected.append(np.nan if known.all() else below[~known].mean())
    return RejectionCurve(
        auroc=None if known.all() else float(roc_auc_score(known, familiarity)),
        rejected=rejected,
        accuracy=np.array(accuracy),
        unknown_rejected=np.array(unknown_rejected),
    )


def _best_temperature(
    probabilities: NDArray[np.floating[Any]], index: NDArray[np.int64]
) -> tuple[float, float]:
    """Return the temperature of the smallest log loss, and that loss; a convex problem."""
    from scipy.optimize import minimize_scalar

    logits = np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))
    samples = np.arange(len(index))

    def log_loss(log_temperature: float) -> float:
        scaled = log_softmax(logits / np.exp(log_temperature), axis=1)
        return float(-scaled[samples, index].mean())

    best = minimize_scalar(log_loss, bounds=(-_LARGEST_LOG, _LARGEST_LOG), method="bounded")
    return float(np.exp(best.x)), float(best.fun)
