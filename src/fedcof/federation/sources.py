"""Where a SuperNode finds its clients and their data.

A source is a string: a function ``package.module:name`` of the user's own, or a path.

=====================  =============================================================================
function               called with Flower's ``Context``; returns ``(data, labels)`` of one client, a
                       mapping of client ids to such pairs (it may be lazy), or an iterable of
                       ``(client_id, data, labels)``
``.npz`` file          arrays ``features`` or ``images``, ``labels``, and where the rows belong to
                       several clients ``clients``, the id of each row's client
folder of ``.npy``     the same arrays as files, read from disk as they are needed
``.parquet`` file      the same as columns; also ``image``, ``label`` and ``client``, and images as
                       Hugging Face stores them. Needs pyarrow.
other folder           images of one client, one sub-folder a class, whose name is the label
=====================  =============================================================================

*data* is an array of float features, shape (n, dim), or n images as `fedcof.data.read_image` takes
them. In a deployment every question is answered by a new process, so what only images need is
imported only for images.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import SummaryError

Data = Any
Clients = Mapping[str, tuple[Data, Any]]

_NAMELESS = ""


def load_clients(source: str, context: Any) -> Clients:
    """Return the data and the labels of every client of a SuperNode.

    The one client of a SuperNode is called by the node configuration's ``client-id``, else by the
    node's own id. In Flower's simulation, where all nodes read one source, each holds its share of
    the clients.

    Parameters
    ----------
    source : str
        See above.
    context : flwr.app.Context
        The SuperNode's.

    Raises
    ------
    SummaryError
        If there is no source, or it is none of the above.
    """
    if not source:
        raise SummaryError("no-data", "name the data: data = ... in the node's configuration")
    name = str(context.node_config.get("client-id", f"node-{context.node_id}"))
    module, colon, attribute = source.partition(":")
    if colon and not Path(source).exists():
        function = getattr(importlib.import_module(module), attribute)
        return _as_mapping(function(context), name)
    clients = read_clients(Path(source), name)
    share = context.node_config.get("partition-id"), context.node_config.get("num-partitions")
    return clients if None in share else Share(clients, *share)


def _as_mapping(loaded: Any, name: str) -> Clients:
    if isinstance(loaded, Mapping):
        return loaded
    if isinstance(loaded, tuple) and len(loaded) == 2:
        return {name: loaded}
    clients: dict[str, tuple[Data, Any]] = {}
    for client_id, data, labels in loaded:
        if client_id in clients:
            raise SummaryError("duplicate-client", "load_data gives a client twice")
        clients[client_id] = (data, labels)
    return clients


def read_clients(path: Path, name: str) -> Clients:
    """Return the clients of a file or folder; one without client ids is that of `name`."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            clients = _by_client({key: arrays[key] for key in arrays.files})
    elif path.suffix == ".parquet":
        clients = _by_client(_read_parquet(path))
    elif (path / "labels.npy").exists():
        clients = _read_npy_folder(path)
    elif path.is_dir():
        from fedcof.data import image_folder

        images = image_folder(path)
        clients = {_NAMELESS: (images.images, np.array(images.classes)[images.labels])}
    else:
        raise SummaryError("no-data", f"{path} is no folder, .npz or .parquet file")
    return {name: clients[_NAMELESS]} if _NAMELESS in clients else clients


def _read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    arrays = {}
    for name in table.column_names:
        column = table[name].to_pylist()
        if name == "features":
            arrays[name] = np.array(column, dtype=np.float32)
        elif name in ("image", "images"):
            arrays["images"] = np.array(
                [cell["bytes"] if isinstance(cell, dict) else cell for cell in column], dtype=object
            )
        elif name in ("label", "labels", "client", "clients"):
            arrays[f"{name.removesuffix('s')}s"] = np.array(column)
    return arrays


@lru_cache(maxsize=1)  # the worker of a simulation answers for one node after the other
def _read_npy_folder(path: Path) -> Clients:
    arrays = {file.stem: np.load(file, mmap_mode="r") for file in sorted(path.glob("*.npy"))}
    return _by_client(arrays)


def _by_client(arrays: Mapping[str, NDArray[Any]]) -> Clients:
    data = arrays["features"] if "features" in arrays else arrays["images"]
    if "clients" not in arrays:
        return {_NAMELESS: (data, arrays["labels"])}
    clients = np.asarray(arrays["clients"])
    order = np.argsort(clients, kind="stable")
    names, starts = np.unique(clients[order], return_index=True)
    rows = zip(map(str, names), np.split(order, starts[1:]), strict=True)
    return Rows(data, arrays["labels"], dict(rows))


class Rows(Mapping[str, tuple[Data, Any]]):
    """Clients as rows of shared arrays."""

    def __init__(self, data: Data, labels: Any, rows: Mapping[str, NDArray[np.int64]]) -> None:
        self._data, self._labels, self._rows = data, labels, rows

    def __getitem__(self, client_id: str) -> tuple[Data, Any]:
        rows = self._rows[client_id]
        return self._data[rows], self._labels[rows]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class Share(Mapping[str, tuple[Data, Any]]):
    """Every `parts`-th of some clients, from number `part` on."""

    def __init__(self, clients: Clients, part: int, parts: int) -> None:
        self._clients, self._ids = clients, dict.fromkeys(sorted(clients)[part::parts])

    def __getitem__(self, client_id: str) -> tuple[Data, Any]:
        if client_id not in self._ids:
            raise KeyError(client_id)
        return self._clients[client_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


def as_features(data: Data, labels: Any, backbone: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return features and labels of a client, from images by way of the backbone.

    Images that cannot be read are left out, with a warning; features are kept in the user's cache,
    so a client that is asked again does not compute them again.

    Raises
    ------
    SummaryError
        If images come without a backbone, or not as many labels as images.
    """
    if isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind == "f":
        return data, np.asarray(labels)
    if not backbone:
        raise SummaryError("no-backbone", "these are images: name a backbone")
    if len(data) != len(labels):
        raise SummaryError("labels", f"{len(data)} images but {len(labels)} labels")
    from fedcof.data import extract_features

    extracted = extract_features(data, _backbone(backbone))
    return extracted.features, np.asarray(labels)[extracted.kept]


@lru_cache(maxsize=1)
def _backbone(name: str) -> Any:
    from fedcof.backbones import get

    return get(name)
