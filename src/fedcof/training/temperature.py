"""The scale of a head, which a solution with rows of length 1 leaves open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from fedcof.heads import LinearHead
from fedcof.summaries import ClassMeans

_LARGEST_LOG_SCALE = 12.0


def fit_temperature(head: LinearHead, means: ClassMeans) -> float:
    """Return the factor of the head's logits that fits the clients' means best.

    The argmax of a head does not depend on its scale, but its cross-entropy does, and with it the
    gradients that training starts with. Rows of length 1 make the softmax as flat or as sharp as
    the features happen to be long. The server knows the clients' means with their counts, so it
    takes the factor of the smallest count-weighted cross-entropy on them, a convex problem in one
    number. Means are easier to tell apart than samples, so the factor is rather too large than too
    small.

    Parameters
    ----------
    head : LinearHead
    means : ClassMeans
        What the clients sent, merged.

    Returns
    -------
    float
        Positive. Where the head gets all means right, the best factor is infinite; e^12 over the
        standard deviation of the logits bounds it.
    """
    from scipy.optimize import minimize_scalar

    scores = head.of_transformed.decision_function(means.means)
    logits = scores / max(float(scores.std()), np.finfo(float).tiny)
    index = np.searchsorted(head.classes, means.classes)
    weights = means.counts / means.counts.sum()

    def cross_entropy(log_scale: float) -> float:
        scaled = np.exp(log_scale) * logits
        of_class = scaled[np.arange(len(index)), index]
        return float(weights @ (logsumexp(scaled, axis=1) - of_class))

    best = minimize_scalar(
        cross_entropy, bounds=(-_LARGEST_LOG_SCALE, _LARGEST_LOG_SCALE), method="bounded"
    )
    return float(np.exp(best.x) / scores.std())


def scale(head: LinearHead, factor: float) -> LinearHead:
    """Return the head with its logits times ``factor``, which fits them; its predictions stay."""
    bias = None if head.bias is None else factor * head.bias
    return replace(head, weight=factor * head.weight, bias=bias, probabilistic=True)
