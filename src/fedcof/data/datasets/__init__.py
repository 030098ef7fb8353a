"""The data sets of the paper, by name, from the folder in which they are unpacked."""

from fedcof.data.datasets.registry import (
    DATASETS,
    Dataset,
    DatasetMissingError,
    describe,
    load,
)

__all__ = ["DATASETS", "Dataset", "DatasetMissingError", "describe", "load"]
