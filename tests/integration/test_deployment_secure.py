"""Secure rounds over real processes with TLS, and what kills in the middle of a sum do."""

import pytest

pytest.importorskip("flwr")

import sqlite3
from contextlib import closing

import numpy as np
from deploy_loopback import kill
from gated_sites import CLIENTS, clients_of
from sites_on_loopback import descendants, wait_until

from fedcof import FedCOF, FedNCM, LinearHead
from fedcof.errors import RunFolderError
from fedcof.federation.report import CollectionReport
from fedcof.federation.status import read_status

pytestmark = pytest.mark.slow

SECURE = "secure=true classes=3 colluders=0.0 dropouts=0.3 min-clients=3"


def federate(deployment, run_folder, more="", **options):
    deployment.federate(run_folder, more=f"{SECURE} {more}", **options)


def assert_head_of(run_folder, method, *sites):
    """Check that the head of a run is that of the clients of some sites."""
    clients = {name: data for site in sites for name, data in clients_of(site).items()}
    parts = [method.summarize(*data, client_id=name) for name, data in clients.items()]
    head, expected = LinearHead.load(run_folder / "head.safetensors"), method.solve(parts)
    np.testing.assert_allclose(
        head.weight, expected.weight, rtol=0, atol=1e-6 * np.abs(expected.weight).max()
    )
    assert head.provenance.clients == len(clients)
    assert CollectionReport.load(run_folder / "report.json").answered == clients.keys()
    with closing(sqlite3.connect(run_folder / "summaries.sqlite")) as database:
        assert database.execute("SELECT * FROM summaries").fetchall() == []


def is_at(run_folder, step):
    """Return whether a run is at a step of its first sum."""
    try:
        return read_status(run_folder).message == f"sum 1, attempt 1: {step}"
    except RunFolderError:
        return False


def test_the_head_of_sums_is_that_of_what_clients_send(deployment, tmp_path):
    federate(deployment, tmp_path)
    assert_head_of(tmp_path, FedCOF(), *CLIENTS)


def test_a_server_and_a_site_that_are_killed_in_the_middle_of_a_sum(deployment, tmp_path):
    held = deployment.gates["site-3"]
    federate(deployment, tmp_path, 'method="fedncm"', stream=False)
    wait_until(lambda: is_at(tmp_path, "shares"))
    held.close()
    wait_until(held.is_waited_at)  # in the step after, where numbers are masked
    [server_app] = [
        process
        for process in descendants(deployment.superlink)
        if "flwr-serverapp" in " ".join(process.cmdline())
    ]
    server_app.kill()
    held.open()
    assert not (tmp_path / "head.safetensors").exists()
    (tmp_path / "status.json").unlink()  # that of the run that was killed

    federate(deployment, tmp_path, 'method="fedncm"', stream=False)
    wait_until(lambda: is_at(tmp_path, "shares"))
    held.close()
    wait_until(held.is_waited_at)
    kill(deployment.supernodes["site-3"])
    wait_until((tmp_path / "head.safetensors").exists)
    assert_head_of(tmp_path, FedNCM(), "site-1", "site-2")
    report = CollectionReport.load(tmp_path / "report.json")
    assert report.missing.keys() == clients_of("site-3").keys()
    assert all(reason.endswith(": it went offline") for reason in report.missing.values())
