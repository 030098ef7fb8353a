"""Arrays of NumPy: ``.npz``, folders of ``.npy``, ``.npy``, safetensors, and dicts of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.data.images import ImageSource
from fedcof.data.reading.table import Kind, Table, reading
from fedcof.errors import OwnDataError

SUFFIXES = (".npz", ".npy", ".safetensors")

_PICKLED = (
    "holds pickled objects, which are not loaded: unpickling runs code. Save texts as "
    "np.array(texts, dtype=str), and lists as arrays"
)


class ArrayTable(Table):
    """Arrays by name, each with an entry a row.

    Parameters
    ----------
    name : str
    arrays : mapping of str to array
        In the place of an array that cannot be loaded, a text that says why.
    """

    def __init__(self, name: str, arrays: Mapping[str, NDArray[Any] | str]) -> None:
        self.name, self._arrays = name, arrays
        self.names = tuple(arrays)
        self.kinds = {key: _kind(array) for key, array in arrays.items()}

    def read(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return arrays."""
        found = {}
        for name in names:
            array = self._arrays[name]
            if isinstance(array, str):
                raise OwnDataError(f"{self.name}: the array {name!r} {array}")
            found[name] = array
        return found

    def images(self, name: str) -> Sequence[ImageSource]:
        """Return an array of images: pixels, or encoded ones."""
        [array] = self.read([name]).values()
        if array.ndim < 3:
            return list(array.tolist())
        return array  # type: ignore[return-value]  # an array is a sequence of arrays


_BY_AXES: dict[int, Kind] = {1: "number", 2: "vector"}


def _kind(array: NDArray[Any] | str) -> Kind:
    if isinstance(array, str) or array.ndim == 0:
        return "other"
    if array.dtype.kind in "UTSO":
        return "text" if array.ndim == 1 else "other"
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        return "other"
    return _BY_AXES.get(array.ndim, "image")


def open_arrays(path: Path) -> ArrayTable:
    """Open a file of arrays, or a folder of ``.npy`` files, each an array.

    Raises
    ------
    OwnDataError
        If it is damaged. No pickle in it is loaded.
    """
    if path.is_dir():
        files = sorted(f for f in path.iterdir() if is_array_file(f))
        return ArrayTable(str(path), {file.stem: _load_npy(file, "r") for file in files})
    with reading(path):
        suffix = path.suffix.lower()
        if suffix == ".npy":
            return ArrayTable(str(path), {"features": _load_npy(path, None)})
        if suffix == ".npz":
            with path.open("rb") as content, np.load(content, allow_pickle=False) as file:
                return ArrayTable(str(path), {key: _load_key(file, key) for key in file.files})
        return ArrayTable(str(path), _load_safetensors(path.read_bytes()))


def is_array_file(path: Path) -> bool:
    """Return whether this is a ``.npy`` file that is not hidden."""
    return path.suffix.lower() == ".npy" and not path.name.startswith(".")


def _load_key(file: Any, key: str) -> NDArray[Any] | str:
    try:
        return np.asarray(file[key])
    except ValueError as error:
        if "allow_pickle" in str(error):
            return _PICKLED
        raise


def _load_npy(path: Path, mode: Any) -> NDArray[Any] | str:
    with reading(path):
        try:
            array: NDArray[Any] = np.load(path, mmap_mode=mode, allow_pickle=False)
            return array
        except ValueError as error:
            if "allow_pickle" in str(error) or "Python objects" in str(error):
                return _PICKLED
            raise


def _load_safetensors(data: bytes) -> dict[str, NDArray[Any] | str]:
    import safetensors

    found: list[tuple[str, dict[str, Any]]] = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
    return {name: _tensor(tensor) for name, tensor in found}


_DTYPES = {
    "BOOL": "?", "U8": "<u1", "I8": "<i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip


def _tensor(found: Mapping[str, Any]) -> NDArray[Any] | str:
    kind, shape, data = found["dtype"], found["shape"], found["data"]
    if kind == "BF16":  # the upper half of a float32
        upper = np.frombuffer(data, "<u2").astype(np.uint32) << 16
        return np.asarray(upper.view(np.float32).reshape(shape))
    if kind not in _DTYPES:
        return f"is of type {kind}, which has no place in NumPy; save it as float16 or float32"
    return np.asarray(np.frombuffer(data, _DTYPES[kind]).reshape(shape))
