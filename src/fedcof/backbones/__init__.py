"""Frozen feature extractors."""

from fedcof.backbones.backbone import Backbone, BackboneError
from fedcof.backbones.preprocessing import Preprocessing
from fedcof.backbones.registry import BACKBONES, get
from fedcof.backbones.sources import NoWeightsError, find_here, weights_folder
from fedcof.backbones.squeezenet1_1 import squeezenet

__all__ = [
    "BACKBONES",
    "Backbone",
    "BackboneError",
    "NoWeightsError",
    "Preprocessing",
    "find_here",
    "get",
    "squeezenet",
    "weights_folder",
]
