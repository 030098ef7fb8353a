"""One file a method, each with both halves: ``summarize`` and ``solve``."""

from fedcof.methods.base import METHODS, Method, Outline, get_method
from fedcof.methods.ccvr import CCVR
from fedcof.methods.closed_form import ClosedForm
from fedcof.methods.fed3r import Fed3R
from fedcof.methods.fedcof import FedCOF
from fedcof.methods.fedcof_linear_sketch import FedCOFLinearSketch
from fedcof.methods.fedcof_shift import FedCOFGated, FedCOFWithin
from fedcof.methods.fedcof_sketch import FedCOFSketch
from fedcof.methods.fedncm import FedNCM
from fedcof.methods.oracle import FedCOFDiagonal, FedCOFOracle, FedCOFSpherical
from fedcof.methods.seeds import client_rng
from fedcof.registry import import_modules

import_modules(__name__, __path__)

__all__ = [
    "CCVR",
    "METHODS",
    "ClosedForm",
    "Fed3R",
    "FedCOF",
    "FedCOFDiagonal",
    "FedCOFGated",
    "FedCOFLinearSketch",
    "FedCOFOracle",
    "FedCOFSketch",
    "FedCOFSpherical",
    "FedCOFWithin",
    "FedNCM",
    "Method",
    "Outline",
    "client_rng",
    "get_method",
]
