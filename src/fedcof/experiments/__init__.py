"""Methods run and measured on data that is dealt to clients."""

from fedcof.experiments.clients import Clients, Source
from fedcof.experiments.declared import EXPERIMENTS, get_experiment
from fedcof.experiments.evaluate import Collected, Dealt, Result, collect, evaluate
from fedcof.experiments.experiment import (
    METRICS,
    Execution,
    Experiment,
    Paper,
    Procedure,
    Setting,
    SettingGrid,
)
from fedcof.experiments.features import FeatureSet, is_features, load_features
from fedcof.experiments.one_round import OneRound, one_round
from fedcof.experiments.participation import Participation
from fedcof.experiments.results import Results, Row, Skipped, partition_name
from fedcof.experiments.runner import run
from fedcof.experiments.training_procedure import Training

__all__ = [
    "EXPERIMENTS",
    "METRICS",
    "Clients",
    "Collected",
    "Dealt",
    "Execution",
    "Experiment",
    "FeatureSet",
    "OneRound",
    "Paper",
    "Participation",
    "Procedure",
    "Result",
    "Results",
    "Row",
    "Setting",
    "SettingGrid",
    "Skipped",
    "Source",
    "Training",
    "collect",
    "evaluate",
    "get_experiment",
    "is_features",
    "load_features",
    "one_round",
    "partition_name",
    "run",
]
