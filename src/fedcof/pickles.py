"""Pickles of others, read without the power that a pickle has."""

import io
import pickle
from typing import Any

import numpy as np


class _ArrayUnpickler(pickle.Unpickler):
    """A pickle may run any code; this one can do nothing but make NumPy arrays."""

    _reconstruct = np.empty(0).__reduce__()[0]

    def find_class(self, module: str, name: str) -> Any:
        admitted = {
            ("numpy.core.multiarray", "_reconstruct"): self._reconstruct,
            ("numpy._core.multiarray", "_reconstruct"): self._reconstruct,
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
        }
        try:
            return admitted[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"the pickle asks for {module}.{name}; only plain containers and NumPy arrays are "
                "admitted"
            ) from None


def load_arrays(data: bytes) -> Any:
    """Return what a pickle holds: plain containers, numbers, texts and NumPy arrays.

    The texts of Python 2 are read as Latin-1, which is also what its arrays need.

    Raises
    ------
    pickle.UnpicklingError
        If it holds anything else, or is damaged.
    """
    try:
        return _ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # on damaged bytes, pickle raises whatever it meets
        raise pickle.UnpicklingError(f"the pickle is damaged: {error!r}") from error
