"""The data of four sites of a soak test, whose clients misbehave; the SuperNodes import this.

What a client does wrong follows from its id, so that every process knows who is honest.
"""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedcof.federation import answering

SITES = ("site-1", "site-2", "site-3", "site-4")
DIM, CLASSES = 16, 3

_honestly = answering.what_leaves


def names_of(site, clients):
    """The ids of a site's clients; every site also holds one that the next site holds too."""
    number = SITES.index(site)
    shared = [f"shared-{number}", f"shared-{(number + 1) % len(SITES)}"]
    return [f"{site}-client-{i:04d}" for i in range(clients // len(SITES) - 1)] + shared


def kind_of(name):
    """What a client does: most are honest."""
    if name.startswith("shared"):
        return "honest"
    kinds = {3: "corrupt", 5: "truncated", 7: "raises", 11: "exits", 13: "not finite", 17: "slow"}
    return kinds.get(int(name[-2:]), "honest")


def data_of(name):
    """A few samples of three classes; the same wherever a client is held."""
    rng = np.random.default_rng(list(name.encode()))
    labels = rng.permutation(np.arange(12) % CLASSES)
    features = (rng.normal(size=(12, DIM)) + labels[:, None]).astype(np.float32)
    if kind_of(name) == "not finite":
        features[0, 0] = np.nan
    return features, labels


class Clients(Mapping):
    def __init__(self, names):
        self._names = names

    def __getitem__(self, name):
        kind = kind_of(name)
        if kind == "raises":
            raise RuntimeError("this client cannot be read")
        if kind == "exits":
            raise SystemExit(3)
        if kind == "slow":
            time.sleep(0.05)
        return data_of(name)

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)


def what_leaves(job, site, names):
    for name, sent in _honestly(job, site, names):
        yield name, sent if isinstance(sent, BaseException) else broken(name, sent)


def broken(name, sent):
    if kind_of(name) == "corrupt":
        middle = len(sent.data) // 2
        flipped = bytes([sent.data[middle] ^ 0xFF])
        return replace(sent, data=sent.data[:middle] + flipped + sent.data[middle + 1 :])
    cut = kind_of(name) == "truncated"
    return replace(sent, data=sent.data[: len(sent.data) // 2]) if cut else sent


def load_data(context):
    answering.what_leaves = what_leaves
    return Clients(names_of(context.node_config["site"], context.node_config["clients"]))
