"""What leaves a SuperNode, above all when something goes wrong in it."""

import json
import weakref

import pytest

pytest.importorskip("flwr")

import logging
from types import SimpleNamespace

import grid_double
import numpy as np
from grid_double import JOB, make_clients

from fedcof import __version__
from fedcof.client import Sender
from fedcof.data.reading.own_data import by_row
from fedcof.errors import SummaryError
from fedcof.federation.answering import answer, describe, summaries, what_leaves
from fedcof.federation.sources import Site
from fedcof.methods import FedCOF, client_rng
from fedcof.privacy import OPEN

SECRET = "patient 42"


@pytest.fixture
def ask(monkeypatch):
    """Ask a SuperNode that holds some clients, or whose load_data raises."""

    def ask(held, action="summarize", **question):
        monkeypatch.setitem(grid_double.NODES, 1, held)
        context = SimpleNamespace(node_id=1, node_config={})
        return answer(action, {**JOB.to_record(), **question}, context)

    return ask


def test_supernode_names_its_clients_without_reading_their_data(ask):
    class Lazy(dict):
        def __getitem__(self, client_id):
            raise AssertionError("read")

    record = ask(Lazy(b=0, a=0), "describe")
    assert (record["clients"], record["samples"], record["version"]) == (
        ["a", "b"],
        [0, 0],
        __version__,
    )


def test_supernode_announces_the_samples_and_classes_that_are_in_memory(ask):
    clients = {"a": (np.zeros((3, 2), np.float32), np.array([0, 1, 1])), "b": (None, ["x"])}
    record = ask(clients, "describe")
    assert (record["samples"], record["classes"]) == ([3, 0], [2, 0])


def test_rows_of_a_table_are_announced_without_reading_them(ask):
    def read(rows):
        raise AssertionError("read")

    record = ask(by_row(np.array(["a", "b", "b"]), read), "describe")
    assert (record["samples"], record["classes"]) == ([1, 2], [0, 0])


def test_no_number_is_announced_where_a_step_changes_what_is_sent():
    clients = {"a": (np.zeros((1, 2), np.float32), np.array([0]))}
    job = SimpleNamespace(sender=SimpleNamespace(steps=("noise",)))
    assert not describe(job, Site(clients, OPEN, dry_run=False)).samples


def test_summary_is_that_of_the_method_in_the_wires_format(ask):
    clients = make_clients(1)
    record = ask(clients, clients=["c000"], limit=10_000)
    assert record["blob"] == FedCOF().summarize(*clients["c000"], client_id="c000").to_bytes()


class NoException(BaseException):
    """What a loader may raise and `except Exception` lets through."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        ImportError(SECRET),
        SystemExit(SECRET),
        KeyboardInterrupt(SECRET),
        NoException(SECRET),
    ],
)
@pytest.mark.parametrize("action", ["describe", "summarize"])
def test_text_of_an_error_stays_in_the_log_of_the_supernode(ask, caplog, error, action):
    with caplog.at_level(logging.ERROR, "fedcof"):
        record = ask(error, action, clients=["a"], limit=1)
    assert record == {"fault": f"raised:{type(error).__name__}", "version": __version__}
    assert SECRET in caplog.text


def test_error_in_one_client_is_a_code_of_that_client_alone(ask, caplog):
    class Failing(dict):
        def __getitem__(self, client_id):
            if client_id == "c001":
                raise ValueError(SECRET)
            return super().__getitem__(client_id)

    clients = Failing(make_clients(3))
    record = ask(clients, clients=sorted(clients), limit=10_000)
    assert record["failed"] == ["c001"]
    assert record["codes"] == ["raised:ValueError"]
    assert record["answered"] == ["c000", "c002"]
    assert SECRET not in str(record)
    assert SECRET in caplog.text


@pytest.mark.parametrize(
    ("client_id", "data", "code"),
    [
        ("nan", (np.full((2, 2), np.nan), [0, 1]), "non-finite:SummaryError"),
        ("none", (np.zeros((0, 2)), []), "empty:SummaryError"),
        ("labels", (np.zeros((2, 2)), [0]), "labels:SummaryError"),
        ("images", ([b"12"], [0]), "no-backbone:SummaryError"),
        ("nothing", 3, "raised:TypeError"),
        ("unknown", None, "raised:KeyError"),
    ],
)
def test_data_that_is_wrong_has_its_code(ask, client_id, data, code):
    clients = {} if data is None else {client_id: data}
    assert ask(clients, clients=[client_id], limit=10_000)["codes"] == [code]


def test_clients_whose_data_is_wrong_are_found_among_those_summarized_together(ask):
    clients = make_clients(5)
    clients["c001"] = (np.full((2, 3), np.nan), [0, 1])
    clients["c003"] = (np.zeros((2, 3)), [0])
    clients["c004"] = (np.full((2, 3), 1e39), [0, 1])  # too large for float32, in which it is sent
    record = ask(clients, clients=sorted(clients), limit=10_000)
    failed = dict(zip(record["failed"], record["codes"], strict=True))
    assert failed == {
        "c001": "non-finite:SummaryError",
        "c003": "labels:SummaryError",
        "c004": "overflow:SummaryError",
    }
    assert record["answered"] == ["c000", "c002"]


def test_what_was_read_of_clients_whose_data_is_wrong_is_held_no_longer():
    # Their errors were, to the end of the answer, and with them all their data.
    read = []

    class Failing(dict):
        def __getitem__(self, client_id):
            data = np.zeros((2, 3))
            read.append(weakref.ref(data))
            return data, ["x", None]  # no label

    names = [f"c{i:03d}" for i in range(20)]
    site = Site(Failing.fromkeys(names), OPEN, dry_run=False)
    held = []
    for _, error in what_leaves(JOB, site, names):
        assert isinstance(error, SummaryError)
        held.append(sum(data() is not None for data in read))
    assert len(held) == 20
    assert max(held) <= 2


def test_a_client_read_after_one_that_fills_the_answer_is_not_mentioned(ask):
    clients = make_clients(3)
    size = len(ask(clients, clients=["c000"], limit=10_000)["blob"])
    clients["c002"] = (np.full((2, 3), np.nan), [0, 1])
    record = ask(clients, clients=["c000", "c001"], limit=size)
    assert (record["answered"], record["failed"]) == (["c000"], [])


def test_question_of_another_version_is_answered_with_a_code(ask):
    sending = json.dumps(Sender(FedCOF()).settings() | {"method": "from the future"})
    record = ask(make_clients(1), sending=sending, clients=["c000"], limit=10_000)
    assert record == {"fault": "raised:ValueError", "version": __version__}


def test_answer_stops_where_it_would_be_too_large():
    site = Site(make_clients(3), OPEN, dry_run=False)
    wanted = sorted(site.clients)
    size = len(summaries(JOB, site, ["c000"], 10_000).summaries["c000"])
    assert list(summaries(JOB, site, wanted, 2 * size).summaries) == ["c000", "c001"]
    assert list(summaries(JOB, site, wanted, 2 * size - 1).summaries) == ["c000"]


def test_summary_that_is_too_large_by_itself_fails_and_the_others_go():
    clients = make_clients(2) | make_clients(1, dim=500)
    found = summaries(JOB, Site(clients, OPEN, dry_run=False), sorted(clients), 1000)
    assert found.failed == {"c000": "too-large"}
    assert list(found.summaries) == ["c001"]


def test_random_sets_come_from_the_seed_and_the_clients_id(ask):
    clients = make_clients(1)
    method = FedCOF(means_per_class=2)
    question = {**grid_double.Job(Sender(method, seed=3), data=JOB.data).to_record()}
    record = ask(clients, **question, clients=["c000"], limit=10_000)
    rng = client_rng(3, "c000")
    expected = method.summarize(*clients["c000"], client_id="c000", rng=rng)
    assert record["blob"] == expected.to_bytes()
