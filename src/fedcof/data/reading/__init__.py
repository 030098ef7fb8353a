"""The one reader of own data: tables, arrays, images, frames, under one set of rules."""

from fedcof.data.reading.own_data import OwnData
from fedcof.data.reading.reading import USUAL_NAMES, Reading, read

__all__ = ["USUAL_NAMES", "OwnData", "Reading", "read"]
