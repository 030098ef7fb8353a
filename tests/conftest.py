from functools import cache

import numpy as np
import pytest
from hypothesis import settings
from typer.main import get_command

settings.register_profile("fedcof", deadline=None, max_examples=30)
settings.load_profile("fedcof")


def pytest_collection_modifyitems(items):
    """Put the files with slow tests first, integration before all: no worker ends on a long one."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path.parent.name != "integration", item.path not in slow))


@pytest.fixture(scope="session", autouse=True)
def _command_line():
    """Build the command line once, and again where a test adds a method: not for every command."""
    from fedcof.methods import METHODS

    @cache
    def built(app, methods):
        return get_command(app)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", lambda app: built(app, (*METHODS.values(),)))
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def deal():
    """Give every client its samples and let it summarize them."""

    def deal(method, features, labels, clients, **options):
        features, labels, clients = map(np.asarray, (features, labels, clients))
        return [
            method.summarize(
                features[clients == client],
                labels[clients == client],
                client_id=f"client-{client}",
                **options,
            )
            for client in np.unique(clients).tolist()
        ]

    return deal


@pytest.fixture(scope="session")
def blobs():
    """240 samples of four anisotropic classes in six dimensions, and their clients.

    Class 3 is at one client alone, and the others are spread unevenly.
    """
    rng = np.random.default_rng(7)
    labels = rng.permutation(np.repeat([0, 1, 2, 3], [90, 80, 60, 10]))
    means = rng.normal(size=(4, 6))
    stretch = rng.normal(size=(6, 6))
    features = means[labels] + rng.normal(size=(240, 6)) @ stretch
    clients = rng.choice(9, size=240, p=np.arange(1, 10) / 45)
    clients[labels == 3] = 4
    clients[labels == 2] %= 5
    return features, labels, clients
