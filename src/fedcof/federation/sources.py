"""Where a SuperNode finds its clients and their data.

A source is a string: a function ``package.module:name`` of the user's own, which is called with
Flower's ``Context`` and returns ``(data, labels)`` of one client, a mapping of client ids to such
pairs (it may be lazy), an iterable of ``(client_id, data, labels)``, or one of these in
`fedcof.privacy.Protected`; or else a path, which `fedcof.data.read` reads. What its columns are
called is in the settings of `fedcof.data.Reading`, those of the node's configuration before those
of the run's.

*data* are features, shape (n, dim), or n images as `fedcof.data.read_image` takes them. In a
deployment every question is answered by a new process, so what only images need is imported only
for images.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcof.data.reading import USUAL_NAMES, OwnData, Reading, read
from fedcof.data.reading.folders import KINDS
from fedcof.data.reading.own_data import Data, LazyClients, are_features, rows_of
from fedcof.data.reading.values import as_data
from fedcof.errors import PolicyError, SummaryError
from fedcof.labels import as_labels
from fedcof.privacy.policy import OPEN, WITHHELD, Policy, Protected, dry_run_of_node, policy_of_node
from fedcof.settings import read_settings

Clients = Mapping[str, tuple[Data, Any]]

DRY_RUN = "dry-run"
"""The code of a site that only tries."""

_log = logging.getLogger(__name__)


class Site(NamedTuple):
    """What a SuperNode holds, and what may leave it.

    Parameters
    ----------
    clients : mapping of str to (data, labels)
    policy : Policy
        That of its configuration, and that of its ``load_data``.
    dry_run : bool
        Whether it only says what it would send.
    """

    clients: Clients
    policy: Policy
    dry_run: bool

    def check_not_dry(self) -> None:
        """Check that something may leave the site.

        Raises
        ------
        SummaryError
            If it only says what would, by its configuration.
        """
        if self.dry_run:
            raise SummaryError(DRY_RUN, "the site only tries, by dry-run in its configuration")


def load_site(source: str, context: Any, reading: Reading = USUAL_NAMES) -> Site:
    """Return the clients of a SuperNode, and its policy, which is read first.

    Parameters
    ----------
    source, reading
        What the server says of the data, for where the node's configuration does not; not heeded
        where the policy says that the site alone does. See `load_clients`.
    context : flwr.app.Context
        The SuperNode's.

    Raises
    ------
    PolicyError
        If the policy cannot be read: nothing leaves then.
    SummaryError, OwnDataError, FileNotFoundError
        As `load_clients`.
    """
    config = context.node_config
    policy, dry_run = policy_of_node(config), dry_run_of_node(config)
    if policy.own_data_only:
        source, reading = "", USUAL_NAMES
    loaded, own = _load(str(config.get("data", source)), context, reading)
    if own.own_data_only and not policy.own_data_only and "data" not in config:
        raise PolicyError("policy-own-data-only", "the site's own configuration names no data")
    return Site(loaded, policy & own, dry_run)


def load_clients(source: str, context: Any, reading: Reading = USUAL_NAMES) -> Clients:
    """Return the data and the labels of every client of a SuperNode.

    The one client of a SuperNode is called by the node configuration's ``client-id``, else by the
    node's own id. In a simulation, where all nodes read one source, each holds its share of
    the clients.

    Parameters
    ----------
    source : str
        See above.
    context : flwr.app.Context
        The SuperNode's.
    reading : Reading
        What the columns are called, where the node's configuration does not say it.

    Raises
    ------
    SummaryError
        If there is no source.
    OwnDataError, FileNotFoundError
        If it cannot be read.
    """
    return _load(source, context, reading)[0]


def _load(source: str, context: Any, reading: Reading) -> tuple[Clients, Policy]:
    """Return the clients of a source, and the policy that it states of them."""
    if not source:
        raise SummaryError("no-data", "name the data: data = ... in the node's configuration")
    name = str(context.node_config.get("client-id", f"node-{context.node_id}"))
    module, colon, attribute = source.partition(":")
    if colon and module not in KINDS and not Path(source).exists():
        try:
            function = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise SummaryError(
                "no-data",
                f"data = {source!r} is no path, and no function of a module ({error}); expected a "
                "path that is there, or package.module:function",
            ) from error
        loaded = function(context)
        if isinstance(loaded, Protected):
            return _as_mapping(loaded.data, name), loaded.policy
        return _as_mapping(loaded, name), OPEN
    own = _read(source, read_settings(Reading, {**asdict(reading), **context.node_config}))
    clients = own.by_client(name)
    node, nodes = (context.node_config.get(key) for key in ("partition-id", "num-partitions"))
    if node is None or nodes is None:
        return clients, OPEN
    share = sorted(clients)[node::nodes]
    if isinstance(clients, LazyClients):
        return clients.subset(share), OPEN
    return {name: clients[name] for name in share}, OPEN


@lru_cache(maxsize=1)  # the worker of a simulation answers for one node after the other
def _read(source: str, reading: Reading) -> OwnData:
    own = read(source, reading, finite=False)
    for line in own.left_out.lines():
        _log.warning("%s: %s", source, line)
    return own


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


def known_sizes(clients: Clients) -> tuple[dict[str, int], dict[str, int]]:
    """Return the samples and the classes of the clients where no data is read to know them.

    Of a plain dict the labels are here; of what is read when it is asked for, at most the rows.
    """
    if isinstance(clients, LazyClients):
        return clients.sizes(), {}
    if type(clients) is not dict:
        return {}, {}
    labels = {name: pair[1] for name, pair in clients.items() if _has_labels(pair)}
    return (
        {name: len(of) for name, of in labels.items()},
        {name: len(np.unique(of)) for name, of in labels.items()},
    )


def _has_labels(pair: Any) -> bool:
    """Return whether a client's labels are an array of integers or texts."""
    labels = pair[1] if isinstance(pair, tuple) and len(pair) == 2 else None
    return isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind in "iuU"


def enough_of(policy: Policy, data: Data, labels: Any) -> tuple[Data, Any]:
    """Return the samples of a client on which it may train: of classes with enough of them.

    Raises
    ------
    SummaryError
        If there are none.
    """
    if policy.min_samples == 1:
        return data, labels
    coded = as_labels(labels)
    rows = policy.trained_on(coded)
    if not len(rows):
        raise SummaryError(WITHHELD, "no class has enough samples to train on")
    return rows_of(as_data(data), rows), coded[rows]


class Extracted(NamedTuple):
    """The features of a client, their labels, and what made them, as summaries have it."""

    features: NDArray[Any]
    labels: NDArray[Any]
    origin: Mapping[str, str]


def extract(
    data: Data,
    labels: Any,
    backbone: str,
    *,
    strict: bool = False,
    advance: Callable[[int], None] = lambda steps: None,
) -> Extracted:
    """Return features and labels of a client, from images by way of the backbone.

    Images that cannot be read are left out, with a warning, or raise where `strict`; features are
    kept in the user's cache, so a client that is asked again does not compute them again.
    `advance` is told how many more samples are done, of features too. A window of the pixels is
    part of the origin: summaries of pictures in different windows are not solved together.

    Raises
    ------
    SummaryError
        If images come without a backbone, or not as many labels as images.
    """
    data = as_data(data)
    if are_features(data):
        advance(len(data))
        return Extracted(data, as_labels(labels), {})
    if not backbone:
        raise SummaryError("no-backbone", "these are images: name a backbone")
    if len(data) != len(labels):
        raise SummaryError("labels", f"{len(data)} images but {len(labels)} labels")
    from fedcof.data import extract_features
    from fedcof.data.images import window_of

    network = _backbone(backbone)
    found = extract_features(data, network, strict=strict, advance=advance)
    window = window_of(data)
    made_by = network.origin if window is None else {**network.origin, "window": str(window)}
    return Extracted(found.features, as_labels(labels)[found.kept], made_by)


@lru_cache(maxsize=1)
def _backbone(name: str) -> Any:
    from fedcof.backbones import get

    return get(name)
