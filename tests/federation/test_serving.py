import pytest

pytest.importorskip("flwr")

import json
from pathlib import Path

import numpy as np
from grid_double import GridDouble, run

from fedcof.client import Sender
from fedcof.federation.plan import Plan
from fedcof.federation.records import Job
from fedcof.federation.serving import Settings, parse_classes
from fedcof.federation.store import SummaryGoneError, SummaryStore
from fedcof.methods import CCVR, Fed3R, FedCOF, FedNCM


def test_settings_come_from_the_run_configuration():
    settings = Settings.from_run_config(
        {
            "method": "fedcof",
            "shrinkage": 0.1,
            "means-per-class": 2,
            "ridge": 3.0,
            "seed": 7,
            "classes": "cat, dog",
            "backbone": "squeezenet1.1",
            "data": "site:load_data",
            "run-folder": "/runs/1",
            "participation": 0.5,
            "min-clients": 3,
            "min-clients-per-class": 2,
            "timeout": 10,
        }
    )
    method = FedCOF(shrinkage=0.1, means_per_class=2)
    assert settings == Settings(
        Job(Sender(method, seed=7), backbone="squeezenet1.1", data="site:load_data"),
        Path("/runs/1"),
        Plan(participation=0.5, min_clients=3, timeout=10.0),
        classes=("cat", "dog"),
        min_clients_per_class=2,
    )


def test_transform_and_coding_travel_in_the_job_and_in_the_fingerprint():
    config = {"transform": "auto", "backbone": "squeezenet1.1", "coding": "means=int8"}
    settings = Settings.from_run_config(config)
    job = Job.from_record(settings.job.to_record())
    assert (str(job.sender.transform), job.sender.coding) == ("power:0.5+standardize", "means=int8")
    assert settings.fingerprint["transform"] == "power:0.5+standardize"
    assert settings.fingerprint["coding"] == "means=int8"
    of_a_table = Settings.from_run_config({"transform": "auto"})
    assert of_a_table.fingerprint["transform"] == "none"


def test_hyperparameters_are_those_of_the_method():
    settings = Settings.from_run_config({"method": "fed3r", "ridge": 3.0, "shrinkage": 0.1})
    assert settings.job.sender.method == Fed3R(ridge=3.0)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"method": "fedcoff"}, "did you mean fedcof"),
        ({"timeout": "long"}, "timeout must be a finite number, above 0, it is 'long'"),
        ({"timeout": float("inf")}, "timeout must be a finite number"),
        ({"min-clients": True}, "min-clients must be an integer, at least 1, it is True"),
        ({"min-clients-per-class": -1}, "min-clients-per-class must be an integer, at least 0"),
        ({"max-message": 0}, "max-message must be an integer, at least 1, it is 0"),
        ({"seed": 1.5}, "seed must be an integer"),
        (
            {"participation": 2.0},
            "participation must be a finite number, above 0 and at most 1, it is 2.0",
        ),
        ({"shrinkage": -1.0}, "shrinkage must be a finite number, at least 0"),
    ],
)
def test_wrong_setting_is_named(config, words):
    with pytest.raises(ValueError, match=words):
        Settings.from_run_config(config)


@pytest.mark.parametrize(
    ("text", "classes"),
    [("", ()), ("3", (0, 1, 2)), ("cat, dog", ("cat", "dog")), ("cat,", ("cat",))],
)
def test_classes_are_a_number_or_names(text, classes):
    assert parse_classes(text) == classes


def test_report_is_in_the_run_folder(clients, tmp_path):
    _, report = run(GridDouble({1: clients}), tmp_path)
    saved = json.loads((tmp_path / "report.json").read_text())
    assert saved["answered"] == sorted(clients)
    assert saved["wire_bytes"] == report.wire_bytes
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "head.safetensors",
        "report.json",
        "summaries.sqlite",
    ]


@pytest.mark.parametrize("method", [FedNCM(), FedCOF(), Fed3R(), CCVR()], ids=lambda m: m.name)
def test_a_federation_that_does_not_fit_into_memory_is_solved_as_a_stream(
    method, clients, tmp_path, monkeypatch
):
    job = Job(Sender(method), data="grid_double:load_data")
    nodes = {1: clients}
    whole, _ = run(GridDouble(nodes), tmp_path / "whole", job=job)
    monkeypatch.setattr("fedcof.federation.serving.IN_MEMORY", 0)
    monkeypatch.setattr("fedcof.federation.store._FRAGMENT", 1)
    streamed, report = run(GridDouble(nodes), tmp_path / "streamed", job=job)
    np.testing.assert_allclose(streamed.weight, whole.weight, rtol=0, atol=1e-10)
    assert streamed.provenance.clients == whole.provenance.clients == len(clients)
    assert report.influence == {}


def test_a_summary_that_goes_while_it_is_read_is_told_or_left_out(tmp_path):
    with SummaryStore(tmp_path / "summaries.sqlite", {"method": "fedcof"}) as store:
        for client_id in "abc":
            made = FedCOF().summarize(np.eye(2), [0, 1], client_id=client_id)
            store.add({client_id: (made, made.to_bytes())})
        kept = store.summaries()
        with SummaryStore(tmp_path / "summaries.sqlite") as other:
            other.withdraw(["b"])
        with pytest.raises(SummaryGoneError, match="'b' has gone"):
            list(kept)
        assert [summary.client_ids for summary in store.summaries()] == [("a",), ("c",)]
