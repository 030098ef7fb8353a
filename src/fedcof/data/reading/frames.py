"""Tables in memory: data frames of pandas, data sets of Hugging Face, tables of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedcof.data.reading.arrays import ArrayTable
from fedcof.data.reading.arrow import ArrowTable, pyarrow
from fedcof.data.reading.columns import check_names
from fedcof.data.reading.table import Table
from fedcof.errors import OwnDataError
from fedcof.labels import without_masked


def table_of(source: Any) -> Table:
    """Return a table in memory as what the reader takes.

    Parameters
    ----------
    source : pandas.DataFrame, datasets.Dataset, pyarrow.Table, or mapping of str to array

    Raises
    ------
    OwnDataError
        If it is none of these, or Arrow has no type for a column.
    """
    kind = type(source).__name__
    if isinstance(source, Mapping) and all(map(_is_array, source.values())):
        return ArrayTable("the arrays", {name: _as_array(v) for name, v in source.items()})
    if isinstance(source, Mapping):
        raise OwnDataError(
            f"a {kind} of {', '.join(map(str, source))} is several data sets; give one of them"
        )
    if hasattr(source, "features") and hasattr(source, "num_rows"):
        table = source.with_format("arrow")[:]
        schema = source.features.arrow_schema
        return ArrowTable("the data set", table.replace_schema_metadata(schema.metadata), Path())
    pa = pyarrow()
    if isinstance(source, pa.Table):
        return ArrowTable("the table", source, Path())
    if hasattr(source, "columns") and hasattr(source, "index"):
        columns = {str(name): values for name, values in source.items()}
        if any(values.dtype == object and _are_pictures(values) for values in columns.values()):
            arrays = {name: _as_array(list(values)) for name, values in columns.items()}
            return ArrayTable("the data frame", arrays)
        return ArrowTable("the data frame", _from_pandas(source), Path())
    raise OwnDataError(
        f"a {kind} is no source of data; expected a path, a data frame of pandas, a data set of "
        "Hugging Face, a table of Arrow or a dict of arrays"
    )


def _from_pandas(frame: Any) -> Any:
    """Return a frame as a table of Arrow; of its index, the levels that have a name are columns."""
    pa = pyarrow()
    names = [str(name) for name in frame.columns]
    check_names("the data frame", names)
    frame = frame.set_axis(names, axis=1)
    if named := any(name is not None for name in frame.index.names):
        levels = [
            f"__index_level_{level}__" if name is None else name
            for level, name in enumerate(frame.index.names)
        ]
        frame = frame.set_axis(frame.index.set_names(levels), axis=0)
    for column, values in frame.items():
        if hasattr(values.dtype, "fill_value"):  # sparse
            frame = frame.assign(**{column: values.sparse.to_dense()})
    try:
        return pa.Table.from_pandas(frame, preserve_index=named)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise OwnDataError(
            f"the data frame: {str(error.args[0]) if error.args else error}"
            + (f"; {error.args[1]}" if len(error.args) > 1 else "")
            + "; make each column of one type"
        ) from None


def _as_array(values: Any) -> NDArray[Any]:
    """Return values as an array; pictures that are objects stay what they are."""
    if np.ma.is_masked(values):
        return without_masked(values)
    if not isinstance(values, list | tuple):
        try:
            return np.asarray(values)
        except (TypeError, RuntimeError) as error:  # of torch: a graph, another device or type
            raise OwnDataError(
                f"a {type(values).__name__} is no array of NumPy ({error}); give "
                "tensor.detach().cpu().float().numpy()"
            ) from None
    if not (_are_pictures(values) or _would_change(values)):
        try:
            return np.asarray(values)
        except ValueError:  # vectors of several lengths, which the reader names
            pass
    array = np.empty(len(values), object)
    for row, value in enumerate(values):
        array[row] = value
    return array


def _would_change(values: Sequence[Any]) -> bool:
    """Return whether NumPy would make texts of numbers, or floats of large integers."""
    texts = [isinstance(value, str) for value in values]
    large = [isinstance(value, Integral) and abs(int(value)) >= 2**53 for value in values]
    return (any(texts) and not all(texts)) or any(large)


def _are_pictures(values: Iterable[Any]) -> bool:
    """Return whether values are objects that hold pixels, for which Arrow has no type."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, np.ndarray):
        return first.ndim > 1
    return isinstance(first, Image.Image | bytearray | memoryview)


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or isinstance(value, list | tuple)
