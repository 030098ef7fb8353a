"""The data sets of the paper, by name, from the folder in which they are unpacked."""

from fedcof.data.datasets.registry import (
    DATASETS,
    Dataset,
    describe,
    load,
    only_images,
    preprocessing_of,
)

__all__ = ["DATASETS", "Dataset", "describe", "load", "only_images", "preprocessing_of"]
