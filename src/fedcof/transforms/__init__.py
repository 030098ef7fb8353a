"""What is done to a feature before any statistic, one file a transform."""

from fedcof.registry import import_modules
from fedcof.transforms.base import NO_TRANSFORM, TRANSFORMS, Chain, Transform, chain, parse
from fedcof.transforms.buckets import Buckets
from fedcof.transforms.clip import Clip
from fedcof.transforms.power import PowerTransform
from fedcof.transforms.random_features import RandomFeatures
from fedcof.transforms.standardize import Standardize

import_modules(__name__, __path__)

__all__ = [
    "NO_TRANSFORM",
    "TRANSFORMS",
    "Buckets",
    "Chain",
    "Clip",
    "PowerTransform",
    "RandomFeatures",
    "Standardize",
    "Transform",
    "chain",
    "parse",
]
