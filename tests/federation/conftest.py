import numpy as np
import pytest

from fedcof.summaries import from_bytes
from fedcof.methods import FedCOF


def make_clients(number, *, dim=4, seed=0):
    """Clients a, b, ... with a few samples of three classes each."""
    rng = np.random.default_rng(seed)
    clients = {}
    for i in range(number):
        labels = rng.integers(3, size=9)
        features = rng.normal(size=(9, dim)) + labels[:, None]
        clients[f"c{i:03d}"] = (features.astype(np.float32), labels)
    return clients


@pytest.fixture
def clients():
    return make_clients(6)


@pytest.fixture
def expected():
    """The bytes of the head that the method makes of clients in one process."""

    def expected(clients, tmp_path, method=FedCOF()):
        summaries = [
            from_bytes(method.summarize(x, y, client_id=name).to_bytes())
            for name, (x, y) in clients.items()
        ]
        path = tmp_path / "expected.safetensors"
        method.solve(summaries).save(path)
        return path.read_bytes()

    return expected
