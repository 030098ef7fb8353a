"""The script of the guide to a deployment."""

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import subprocess
import sys

import deploy_loopback
import numpy as np
from sites_on_loopback import (
    head_of,
    head_of_one_process,
)

pytestmark = pytest.mark.slow


def test_script_of_the_guide_gives_the_head_of_one_process(tmp_path):
    subprocess.run([sys.executable, deploy_loopback.__file__, tmp_path], check=True)
    clients = {}
    for path in tmp_path.glob("site-*.npz"):
        with np.load(path) as site:
            for client_id in np.unique(site["clients"]).tolist():
                rows = site["clients"] == client_id
                clients[client_id] = (site["features"][rows], site["labels"][rows])
    assert len(clients) == 30
    assert head_of(tmp_path / "run") == head_of_one_process(clients, tmp_path)
