import pytest

from fedcof.client import Sender
from fedcof.methods import FedCOF
from fedcof.summaries import from_bytes

METHOD = FedCOF()


@pytest.fixture
def clients():
    return pytest.importorskip("grid_double").make_clients(6)


@pytest.fixture
def expected():
    """The bytes of the head that the method makes of clients in one process."""

    def expected(clients, tmp_path, method=METHOD):
        summaries = [
            from_bytes(method.summarize(x, y, client_id=name).to_bytes())
            for name, (x, y) in clients.items()
        ]
        path = tmp_path / "expected.safetensors"
        sending = Sender(method).settings()
        method.solve(summaries).with_provenance(sending=sending).save(path)
        return path.read_bytes()

    return expected
