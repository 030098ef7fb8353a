"""How the float arrays of a summary travel, one file a coding."""

from fedcof.codings.base import AUTO, CODINGS, Coding, Parts, parse_codings
from fedcof.codings.float16 import Float16
from fedcof.codings.float32 import Float32
from fedcof.codings.integers import Int4, Int6, Int8
from fedcof.registry import import_modules

import_modules(__name__, __path__)

__all__ = [
    "AUTO",
    "CODINGS",
    "Coding",
    "Float16",
    "Float32",
    "Int4",
    "Int6",
    "Int8",
    "Parts",
    "parse_codings",
]
