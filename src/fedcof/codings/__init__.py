"""How the float arrays of a summary travel, one file a coding."""

from fedcof.codings.base import CODINGS, Coding, Parts
from fedcof.codings.float32 import Float32
from fedcof.registry import import_modules

import_modules(__name__, __path__)

__all__ = ["CODINGS", "Coding", "Float32", "Parts"]
