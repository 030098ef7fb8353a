"""Frozen feature extractors: one resolver of names, and ONNX Runtime to run what it finds.

`torch_backbone` runs the same in torch, where it can be trained.
"""

from fedcof.backbones.backbone import Backbone, get
from fedcof.backbones.preprocessing import Preprocessing
from fedcof.backbones.registry import BACKBONES, transform_for
from fedcof.backbones.resolver import (
    by_origin,
    resolve,
    sources,
    split_name,
    weights_folder,
    with_weights,
)
from fedcof.backbones.sources import NAMED_SOURCES, ResolvedBackbone

__all__ = [
    "BACKBONES",
    "NAMED_SOURCES",
    "Backbone",
    "Preprocessing",
    "ResolvedBackbone",
    "by_origin",
    "get",
    "resolve",
    "sources",
    "split_name",
    "transform_for",
    "weights_folder",
    "with_weights",
]
