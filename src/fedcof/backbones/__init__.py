"""Frozen feature extractors."""

from fedcof.backbones.backbone import Backbone
from fedcof.backbones.preprocessing import Preprocessing
from fedcof.backbones.registry import BACKBONES, get
from fedcof.backbones.sources import find_here, weights_folder
from fedcof.backbones.squeezenet1_1 import squeezenet

__all__ = [
    "BACKBONES",
    "Backbone",
    "Preprocessing",
    "find_here",
    "get",
    "squeezenet",
    "weights_folder",
]
