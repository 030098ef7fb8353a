"""Training-free federated learning: one round of class means, a closed-form classifier.

A method has two halves. ``method.summarize(features, labels)`` runs on a client and returns a
summary, all that leaves it; ``method.solve(summaries)`` runs on the server and returns a
`LinearHead`. Everything else feeds these two calls or uses what they return.
"""

from typing import TYPE_CHECKING, Any

from fedcof.errors import (
    FedCOFError,
    FewMeansWarning,
    HeadError,
    SettingError,
    SingularScatterWarning,
    SummaryError,
)
from fedcof.heads import Head, LinearHead, Provenance, QuadraticHead
from fedcof.methods import (
    CCVR,
    METHODS,
    Fed3R,
    FedCOF,
    FedCOFDiagonal,
    FedCOFLinearSketch,
    FedCOFOracle,
    FedCOFSketch,
    FedCOFSpherical,
    FedNCM,
    Method,
    get_method,
)
from fedcof.privacy import CountNoise
from fedcof.scatter import condition_number, estimate_class_covariances
from fedcof.site_heads import site_heads
from fedcof.summaries import (
    ClassCovariances,
    ClassMeans,
    ClassSphericalVariances,
    ClassVariances,
    Gram,
    LinearSketch,
    ScatterSketch,
    Summarizer,
    Summary,
    from_bytes,
    load,
    merge,
    summarize,
    withdraw,
)
from fedcof.telemetry import switch_off

switch_off()  # nothing above imports a library that phones home

if TYPE_CHECKING:
    from fedcof.classifiers import (
        CCVRClassifier,
        FeatureTransformer,
        Fed3RClassifier,
        FedCOFClassifier,
        FedNCMClassifier,
    )

__version__ = "0.2.0"

__all__ = [
    "CCVR",
    "METHODS",
    "CCVRClassifier",
    "ClassCovariances",
    "ClassMeans",
    "ClassSphericalVariances",
    "ClassVariances",
    "CountNoise",
    "FeatureTransformer",
    "Fed3R",
    "Fed3RClassifier",
    "FedCOF",
    "FedCOFClassifier",
    "FedCOFDiagonal",
    "FedCOFError",
    "FedCOFLinearSketch",
    "FedCOFOracle",
    "FedCOFSketch",
    "FedCOFSpherical",
    "FedNCM",
    "FedNCMClassifier",
    "FewMeansWarning",
    "Gram",
    "Head",
    "HeadError",
    "LinearHead",
    "LinearSketch",
    "Method",
    "Provenance",
    "QuadraticHead",
    "ScatterSketch",
    "SettingError",
    "SingularScatterWarning",
    "Summarizer",
    "Summary",
    "SummaryError",
    "condition_number",
    "estimate_class_covariances",
    "from_bytes",
    "get_method",
    "load",
    "merge",
    "site_heads",
    "summarize",
    "withdraw",
]


def __getattr__(name: str) -> Any:
    # scikit-learn takes longer to import than all the rest.
    if name in __all__:
        from fedcof import classifiers

        return getattr(classifiers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
