"""The data of three sites, held back as long as a test wants; the SuperNodes import this.

Where a run names a backbone, the clients have images, else features.

A site that is held stops before it summarizes its first client, which is the middle of a round, or
in the step of a sum that is named.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedcof.federation.status import read_status

CLIENTS = {"site-1": 3, "site-2": 2, "site-3": 1}


def clients_of(site):
    """A few samples of three classes for each of the site's clients."""
    rng = np.random.default_rng(int(site[-1]))
    clients = {}
    for i in range(CLIENTS[site]):
        labels = rng.integers(3, size=12)
        features = (rng.normal(size=(12, 8)) + labels[:, None]).astype(np.float32)
        clients[f"{site}-client-{i}"] = (features, labels)
    return clients


def pictures_of(site):
    """A few images for each of the site's clients, of classes of different brightness."""
    rng = np.random.default_rng(int(site[-1]))
    clients = {}
    for client_id, (_, labels) in clients_of(site).items():
        noise = rng.integers(100, size=(len(labels), 8, 8, 3))
        clients[client_id] = ((noise + 70 * labels[:, None, None, None]).astype(np.uint8), labels)
    return clients


class Gate:
    """Holds a site's answers back, from any process that knows the folder."""

    def __init__(self, folder, site):
        self._closed = Path(folder) / f"{site}.closed"
        self._waiting = Path(folder) / f"{site}.waiting"

    def close(self, step=""):
        """Hold the site's next answers, or those in a step; those held by now go on."""
        self._closed.write_text(f"{time.time_ns()} {step}")

    def open(self):
        self._closed.unlink()

    def token(self):
        """What tells one closing from the next; empty while the gate is open."""
        try:
            return self._closed.read_text()
        except FileNotFoundError:
            return ""

    def step(self):
        """The step of a sum in which the site is held; empty where it is in any question."""
        return self.token().partition(" ")[2]

    def wait(self, token):
        """Return when the gate is not closed any more as it was with this token."""
        while token and self.token() == token:
            self._waiting.write_text(token)
            time.sleep(0.05)

    def is_waited_at(self):
        return self._waiting.exists() and self._waiting.read_text() == self.token()


class Gated(Mapping):
    """The clients of a site, behind its gate."""

    def __init__(self, clients, gate):
        self._clients, self._gate, self._token = clients, gate, gate.token()

    def __getitem__(self, client_id):
        self._gate.wait(self._token)
        return self._clients[client_id]

    def __iter__(self):
        return iter(self._clients)

    def __len__(self):
        return len(self._clients)


def load_data(context):
    site = context.node_config["site"]
    held = pictures_of if context.run_config["backbone"] else clients_of
    gate = Gate(context.node_config["gates"], site)
    if not (step := gate.step()):
        return Gated(held(site), gate)
    if read_status(Path(context.run_config["run-folder"])).message.endswith(f": {step}"):
        gate.wait(gate.token())
    return held(site)
