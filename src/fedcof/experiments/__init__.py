"""Methods run and measured on data that is dealt to clients."""

from fedcof.experiments.evaluate import Dealt, Result, evaluate

__all__ = ["Dealt", "Result", "evaluate"]
