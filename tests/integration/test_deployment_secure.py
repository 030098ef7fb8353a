"""Secure rounds over real processes with TLS, and what kills in the middle of a sum do."""

import pytest

pytest.importorskip("flwr")

import os
import sqlite3
from contextlib import closing

import numpy as np
from deploy_loopback import kill
from gated_sites import clients_of
from sites_on_loopback import descendants, wait_until

from fedcof import FedCOF, FedNCM, LinearHead
from fedcof.federation.report import CollectionReport
from fedcof.federation.secure.rounds import STEPS
from fedcof.federation.secure.statistic import MASK

pytestmark = pytest.mark.slow

soak = pytest.mark.skipif(
    "FEDCOF_SOAK_MINUTES" not in os.environ, reason="minutes each: `make soak` kills in every step"
)
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


def kill_server_app(deployment):
    [server_app] = [
        process
        for process in descendants(deployment.superlink)
        if "flwr-serverapp" in " ".join(process.cmdline())
    ]
    server_app.kill()


@pytest.mark.parametrize(
    ("exchange", "method"),
    [
        (MASK, FedCOF()),  # which takes a second sum over those who are left
        *(
            pytest.param(exchange, FedNCM(), marks=soak)
            for exchange in range(5)
            if exchange != MASK
        ),
    ],
)
def test_a_server_and_a_site_that_are_killed_in_a_step_of_a_sum(
    exchange, method, deployment, tmp_path
):
    if deployment.supernodes["site-3"].poll() is not None:
        deployment.start_site("site-3")
    step, held = STEPS[exchange], deployment.gates["site-3"]
    held.close(step)
    federate(deployment, tmp_path, f'method="{method.name}"', stream=False)
    wait_until(held.is_waited_at)
    kill_server_app(deployment)
    assert not (tmp_path / "head.safetensors").exists()

    held.close(step)  # in the run that follows; lets go of the one that was killed
    federate(deployment, tmp_path, f'method="{method.name}"', stream=False)
    wait_until(held.is_waited_at)
    kill(deployment.supernodes["site-3"])
    held.open()
    wait_until((tmp_path / "sum-1.safetensors").exists)
    wait_until((tmp_path / "head.safetensors").exists)
    masked = exchange > MASK  # its numbers are in the sum that the others open
    assert_head_of(tmp_path, method, "site-1", "site-2", *["site-3"] * masked)
    report = CollectionReport.load(tmp_path / "report.json")
    tried = report.sums[0]
    assert tried.dropped == dict.fromkeys(clients_of("site-3"), f"{step}: it went offline")
    assert report.missing == ({} if masked else tried.dropped)
