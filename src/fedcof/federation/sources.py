"""Where a SuperNode finds its clients and their data.

A source is a string: a function ``package.module:name`` of the user's own, or a path.

=====================  =============================================================================
function               called with Flower's ``Context``; returns ``(data, labels)`` of one client, a
                       mapping of client ids to such pairs (it may be lazy), or an iterable of
                       ``(client_id, data, labels)``
``.npz`` file          arrays ``features`` or ``images``, ``labels``, and where the rows belong to
                       several clients ``clients``, the id of each row's client
folder of ``.npy``     the same arrays as files, read from disk as they are needed
``.parquet`` file      columns ``features``, ``labels`` and perhaps ``clients``; or images as
                       `fedcof.data.arrow.read_images` takes them, labelled by the names of their
                       classes, and perhaps ``clients``
other folder           images of one client, one sub-folder a class, whose name is the label
=====================  =============================================================================

*data* is an array of float features, shape (n, dim), or n images as `fedcof.data.read_image` takes
them. In a deployment every question is answered by a new process, so what only images need is
imported only for images.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcof.errors import SummaryError

if TYPE_CHECKING:
    from fedcof.data import ImageSet

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
    node, nodes = (context.node_config.get(key) for key in ("partition-id", "num-partitions"))
    if node is None or nodes is None:
        return clients
    return LazyClients({name: name for name in sorted(clients)[node::nodes]}, clients.__getitem__)


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
        clients = _read_parquet(path)
    elif (path / "labels.npy").exists():
        clients = _read_npy_folder(path)
    elif path.is_dir():
        from fedcof.data import image_folder

        clients = _images_by_client(image_folder(path))
    else:
        raise SummaryError("no-data", f"{path} is no folder, .npz or .parquet file")
    return {name: clients[_NAMELESS]} if _NAMELESS in clients else clients


@lru_cache(maxsize=1)  # the worker of a simulation answers for one node after the other
def _read_npy_folder(path: Path) -> Clients:
    arrays = {file.stem: np.load(file, mmap_mode="r") for file in sorted(path.glob("*.npy"))}
    return _by_client(arrays)


def _read_parquet(path: Path) -> Clients:
    import pyarrow.parquet

    if "features" not in pyarrow.parquet.read_schema(path).names:
        from fedcof.data.arrow import read_images

        return _images_by_client(read_images([path]))
    columns = pyarrow.parquet.read_table(path).to_pydict()
    features = np.array(columns.pop("features"), dtype=np.float32)
    others = {f"{name.removesuffix('s')}s": np.array(values) for name, values in columns.items()}
    return _by_client({"features": features, **others})


def _by_client(arrays: Mapping[str, NDArray[Any]]) -> Clients:
    data = arrays["features"] if "features" in arrays else arrays["images"]
    labels = arrays["labels"]
    if "clients" not in arrays:
        return {_NAMELESS: (data, labels)}
    return _by_row(arrays["clients"], lambda rows: (data[rows], labels[rows]))


def _images_by_client(images: ImageSet) -> Clients:
    labels = np.array(images.classes)[images.labels]
    clients = images.columns.get("clients", images.columns.get("client"))
    if clients is None:
        return {_NAMELESS: (images.images, labels)}
    return _by_row(clients, lambda rows: (images.subset(rows).images, labels[rows]))


def _by_row(clients: NDArray[Any], read: Callable[[Any], tuple[Data, Any]]) -> Clients:
    """Return the clients of a table from the client of every row, and what reads some rows."""
    order = np.argsort(clients, kind="stable")
    names, starts = np.unique(clients[order], return_index=True)
    return LazyClients(dict(zip(map(str, names), np.split(order, starts[1:]), strict=True)), read)


class LazyClients(Mapping[str, tuple[Data, Any]]):
    """Clients whose data is read when it is asked for.

    Parameters
    ----------
    places : mapping of str to object
        Where each client's data is: the rows of a table, a key of another mapping.
    read : callable
        Returns the data and the labels in a place.
    """

    def __init__(self, places: Mapping[str, Any], read: Callable[[Any], tuple[Data, Any]]) -> None:
        self._places, self._read = places, read

    def __getitem__(self, client_id: str) -> tuple[Data, Any]:
        return self._read(self._places[client_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def are_features(data: Data) -> bool:
    """Return whether data are features, and not images."""
    return isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind == "f"


class Extracted(NamedTuple):
    """The features of a client, their labels, and what made them, as summaries have it."""

    features: NDArray[Any]
    labels: NDArray[Any]
    origin: Mapping[str, str]


def extract(data: Data, labels: Any, backbone: str, **options: Any) -> Extracted:
    """Return features and labels of a client, from images by way of the backbone.

    Images that cannot be read are left out, with a warning; features are kept in the user's cache,
    so a client that is asked again does not compute them again. The options are those of
    `fedcof.data.extract_features`.

    Raises
    ------
    SummaryError
        If images come without a backbone, or not as many labels as images.
    """
    if are_features(data):
        return Extracted(data, np.asarray(labels), {})
    if not backbone:
        raise SummaryError("no-backbone", "these are images: name a backbone")
    if len(data) != len(labels):
        raise SummaryError("labels", f"{len(data)} images but {len(labels)} labels")
    from fedcof.data import extract_features

    network = _backbone(backbone)
    found = extract_features(data, network, **options)
    return Extracted(found.features, np.asarray(labels)[found.kept], network.origin)


@lru_cache(maxsize=1)
def _backbone(name: str) -> Any:
    from fedcof.backbones import get

    return get(name)
