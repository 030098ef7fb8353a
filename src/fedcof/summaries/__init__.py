"""What a client may send: frozen, checked, mergeable, sized in bytes; one file a statistic."""

from fedcof.registry import import_modules
from fedcof.summaries.base import Summary, check_classes, from_bytes, load, merge, ordered
from fedcof.summaries.class_means import ClassMeans, Summarizer, summarize
from fedcof.summaries.class_moments import (
    ClassCovariances,
    ClassDistribution,
    ClassMoments,
    ClassSphericalVariances,
    ClassVariances,
    class_distributions,
)
from fedcof.summaries.gram import Gram
from fedcof.summaries.linear_sketch import LinearSketch
from fedcof.summaries.scatter_sketch import ScatterSketch
from fedcof.summaries.withdrawal import withdraw

import_modules(__name__, __path__)

__all__ = [
    "ClassCovariances",
    "ClassDistribution",
    "ClassMeans",
    "ClassMoments",
    "ClassSphericalVariances",
    "ClassVariances",
    "Gram",
    "LinearSketch",
    "ScatterSketch",
    "Summarizer",
    "Summary",
    "check_classes",
    "class_distributions",
    "from_bytes",
    "load",
    "merge",
    "ordered",
    "summarize",
    "withdraw",
]
