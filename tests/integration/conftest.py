import pytest


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    pytest.importorskip("flwr")
    from sites_on_loopback import Deployment

    with Deployment(tmp_path_factory.mktemp("deployment")) as deployment:
        deployment.start()
        yield deployment
