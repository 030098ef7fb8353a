"""What kills do to a real deployment on loopback."""

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")


import psutil
from deploy_loopback import kill
from gated_sites import CLIENTS, clients_of
from sites_on_loopback import (
    clients_at,
    descendants,
    head_of,
    head_of_one_process,
    report_of,
    stored,
    wait_until,
)

pytestmark = pytest.mark.slow


def test_server_that_is_killed_asks_only_who_is_missing(deployment, tmp_path):
    site_2, site_3 = deployment.gates["site-2"], deployment.gates["site-3"]
    site_2.close()
    site_3.close()
    deployment.federate(tmp_path, stream=False)
    wait_until(lambda: stored(tmp_path) == clients_at("site-1"))
    wait_until(lambda: site_2.is_waited_at() and site_3.is_waited_at())
    [server_app] = [
        process
        for process in descendants(deployment.superlink)
        if "flwr-serverapp" in " ".join(process.cmdline())
    ]
    server_app.kill()

    site_2.open()
    site_3.close()
    deployment.federate(tmp_path, stream=False)
    wait_until(lambda: stored(tmp_path) == clients_at("site-1", "site-2"))
    wait_until(site_3.is_waited_at)
    orphans = descendants(deployment.superlink)
    deployment.superlink.kill()
    deployment.superlink.wait()
    _, alive = psutil.wait_procs(orphans, timeout=120)
    assert not alive
    assert not (tmp_path / "head.safetensors").exists()

    site_3.open()
    deployment.superlink = deployment.start_superlink()
    deployment.federate(tmp_path)
    report = report_of(tmp_path)
    assert report["resumed"] == clients_at("site-1", "site-2")
    assert report["asked"] == report["answered"] == clients_at("site-3")
    everyone = {name: data for site in CLIENTS for name, data in clients_of(site).items()}
    assert head_of(tmp_path) == head_of_one_process(everyone, tmp_path)


def test_supernode_that_is_killed_is_named_and_the_others_unharmed(deployment, tmp_path):
    others, dead = clients_at("site-1", "site-2"), clients_at("site-3")
    deployment.gates["site-3"].close()
    deployment.federate(tmp_path, stream=False)
    wait_until(deployment.gates["site-3"].is_waited_at)
    kill(deployment.supernodes["site-3"])
    wait_until((tmp_path / "head.safetensors").exists)
    report = report_of(tmp_path)
    assert report["answered"] == others
    assert report["missing"] == dict.fromkeys(dead, "it went offline")
    clients = clients_of("site-1") | clients_of("site-2")
    assert head_of(tmp_path) == head_of_one_process(clients, tmp_path)

    deployment.gates["site-3"].open()
    deployment.start_site("site-3")
    deployment.federate(tmp_path)
    report = report_of(tmp_path)
    assert report["resumed"] == others
    assert report["asked"] == report["answered"] == dead
    everyone = clients | clients_of("site-3")
    assert head_of(tmp_path) == head_of_one_process(everyone, tmp_path)
