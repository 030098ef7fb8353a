"""Methods run and measured on data that is dealt to clients."""

from fedcof.experiments.evaluate import Dealt, Result, collect, evaluate
from fedcof.experiments.experiment import METRICS, Experiment
from fedcof.experiments.features import FeatureSet, Samples, load_features
from fedcof.experiments.paper import EXPERIMENTS, get_experiment
from fedcof.experiments.results import MEASURED, Results, Row, Skipped, partition_name
from fedcof.experiments.runner import run

__all__ = [
    "EXPERIMENTS",
    "MEASURED",
    "METRICS",
    "Dealt",
    "Experiment",
    "FeatureSet",
    "Result",
    "Results",
    "Row",
    "Samples",
    "Skipped",
    "collect",
    "evaluate",
    "get_experiment",
    "load_features",
    "partition_name",
    "run",
]
