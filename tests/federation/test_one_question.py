"""Names of clients and their summaries in one answer: what holds with two questions holds."""

import pytest

pytest.importorskip("flwr")

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from grid_double import (
    JOB,
    NODES,
    GridDouble,
    dealt,
    fail,
    make_clients,
    one_each,
    run,
    say,
    without,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedcof.errors import SettingError, TooFewClientsError
from fedcof.federation import answering
from fedcof.federation.plan import Plan
from fedcof.federation.serving import HEAD, STORE, Settings
from fedcof.federation.store import SummaryStore

FIRST_KEY, SECOND_KEY = (
    ec.derive_private_key(number, ec.SECP384R1())
    .public_key()
    .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for number in (2, 3)
)

PLAN = Plan(timeout=60, one_question=True)


def actions(grid):
    return [(node_id, action) for node_id, action, _ in grid.asked]


def test_a_supernode_is_asked_once(clients, expected, tmp_path):
    grid = GridDouble(one_each(clients))
    _, report = run(grid, tmp_path, plan=PLAN)
    assert actions(grid) == [(node_id, "describe") for node_id in range(1, 7)]
    assert report.asked == report.answered == set(clients)
    assert report.rounds == 1
    assert (tmp_path / HEAD).read_bytes() == expected(clients, tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(data=st.data())
def test_head_does_not_depend_on_who_holds_whom_and_what_goes_into_a_message(
    data, clients, expected, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("run")
    size = data.draw(st.sampled_from([600, 1000, 1 << 20]))
    plan = replace(PLAN, min_clients=6, max_message=size)
    _, report = run(data.draw(dealt(clients)), folder, plan=plan)
    assert report.answered == set(clients)
    assert (folder / HEAD).read_bytes() == expected(clients, folder)


def test_a_client_that_kills_the_process_harms_no_other(clients, expected, tmp_path):
    def die(message, honest):
        question = message.content["question"]
        asked = question.get("clients", list(clients) if "limit" in question else [])
        return fail(message, 1) if "c002" in asked else honest()

    _, report = run(GridDouble({1: clients}, {1: die}), tmp_path, plan=PLAN)
    assert set(report.missing) == {"c002"}
    assert (tmp_path / HEAD).read_bytes() == expected(without(clients, "c002"), tmp_path)


def test_a_client_that_fails_is_named_and_not_asked_again(clients, expected, tmp_path):
    features, labels = clients["c002"]
    grid = GridDouble({1: clients | {"c002": (features * np.nan, labels)}})
    _, report = run(grid, tmp_path, plan=PLAN)
    assert report.refused == {"c002": "non-finite:SummaryError (at the client)"}
    assert actions(grid) == [(1, "describe")]
    assert (tmp_path / HEAD).read_bytes() == expected(without(clients, "c002"), tmp_path)


def test_a_supernode_may_not_answer_for_a_client_of_another_key(clients, expected, tmp_path):
    stolen = {"c000": (100 + clients["c000"][0], clients["c000"][1])}
    nodes = one_each(clients) | {9: stolen}
    grid = GridDouble(nodes, {9: lambda message, honest: 5}, keys={1: FIRST_KEY, 9: SECOND_KEY})
    _, report = run(grid, tmp_path, plan=replace(PLAN, min_clients=6))
    assert "SuperNode 9 may not answer for it" in report.claimed["c000"]
    assert not report.conflicting
    assert (tmp_path / HEAD).read_bytes() == expected(clients, tmp_path)


def test_of_two_supernodes_that_hold_a_client_the_first_counts(clients, expected, tmp_path):
    nodes = one_each(clients) | {9: {"c000": (1 + clients["c000"][0], clients["c000"][1])}}
    grid = GridDouble(nodes, {9: lambda message, honest: 5})
    _, report = run(grid, tmp_path, plan=PLAN)
    assert (report.shared, report.conflicting) == ({"c000"}, {"c000"})
    assert (tmp_path / HEAD).read_bytes() == expected(clients, tmp_path)


def test_a_run_that_goes_on_asks_for_nothing_that_it_has(clients, expected, tmp_path):
    run(GridDouble({1: without(clients, "c003")}), tmp_path, plan=PLAN)
    grid = GridDouble({1: clients})
    _, report = run(grid, tmp_path, plan=PLAN)
    assert grid.asked == [(1, "describe", ()), (1, "summarize", ("c003",))]
    assert len(report.resumed) == 5
    assert (tmp_path / HEAD).read_bytes() == expected(clients, tmp_path)


def test_who_has_withdrawn_is_not_asked(clients, expected, tmp_path):
    grid = GridDouble({1: clients})
    run(grid, tmp_path, plan=replace(PLAN, withdraw="c001"))
    assert "c001" not in grid.summarized()
    assert len(grid.summarized()) == 5
    assert (tmp_path / HEAD).read_bytes() == expected(without(clients, "c001"), tmp_path)


def test_a_site_of_another_version_sends_names_alone(clients, tmp_path, monkeypatch):
    job = JOB.to_record() | {"version": "99.0.0", "limit": 1 << 20}
    monkeypatch.setattr(
        answering, "summaries", lambda *arguments: pytest.fail("nothing may be computed")
    )
    monkeypatch.setitem(NODES, 1, clients)
    record = answering.answer("describe", job, SimpleNamespace(node_id=1, node_config={}))
    assert record["clients"] == sorted(clients)
    assert "answered" not in record


def test_summaries_of_another_version_do_not_count(clients, expected, tmp_path):
    def other(message, honest):
        record = dict(honest().content["answer"])
        return say(message, **record | {"version": "99.0.0"})

    _, report = run(GridDouble(one_each(clients), {2: other}), tmp_path, plan=PLAN)
    assert "99.0.0" in report.nodes[2]
    assert report.answered == set(without(clients, "c001"))
    assert (tmp_path / HEAD).read_bytes() == expected(without(clients, "c001"), tmp_path)


@pytest.mark.parametrize("change", [{"sizes": [1]}, {"blob": "text"}, {"answered": [1]}])
def test_names_count_where_the_summaries_along_are_malformed(change, clients, expected, tmp_path):
    def lie(message, honest):
        record = dict(honest().content["answer"])
        return say(message, **record | change) if "version" in record else honest()

    _, report = run(GridDouble(one_each(clients), {2: lie}), tmp_path, plan=PLAN)
    assert report.answered == set(clients)
    assert (tmp_path / HEAD).read_bytes() == expected(clients, tmp_path)


def test_too_few_clients_make_no_head_and_are_kept(clients, tmp_path):
    plan = replace(PLAN, min_clients=7)
    with pytest.raises(TooFewClientsError, match="at least 7 are needed"):
        run(GridDouble(one_each(clients)), tmp_path, plan=plan)
    with SummaryStore(tmp_path / STORE, Settings(JOB, tmp_path).fingerprint) as store:
        assert store.client_ids() == set(clients)


def test_who_comes_during_the_round_counts(clients, expected, tmp_path):
    nodes = one_each(clients)
    late = nodes.pop(6)
    grid = GridDouble(nodes, {1: lambda message, honest: 30})
    grid.at[10.0] = lambda: nodes.update({6: late})
    _, report = run(grid, tmp_path, plan=PLAN)
    assert report.answered == set(clients)
    assert (tmp_path / HEAD).read_bytes() == expected(clients, tmp_path)


def test_a_supernode_without_clients_is_no_fault(clients, expected, tmp_path):
    _, report = run(GridDouble({**one_each(clients), 9: {}}), tmp_path, plan=PLAN)
    assert report.nodes == {}
    assert (tmp_path / HEAD).read_bytes() == expected(clients, tmp_path)


def test_what_does_not_go_into_the_first_answer_is_asked_for(tmp_path):
    clients = make_clients(60)
    grid = GridDouble({1: clients})
    _, report = run(grid, tmp_path, plan=replace(PLAN, max_message=6000))
    assert {action for _, action in actions(grid)[1:]} == {"summarize"}
    assert grid.summarized()[0] != "c000"
    assert report.answered == set(clients)


def test_summaries_that_come_along_unasked_do_not_count(clients, expected, tmp_path):
    """Who is drawn, and which key may answer, is known first where two questions are asked."""

    def eager(message, honest):
        message.content["question"]["limit"] = 1 << 20
        return honest()

    grid = GridDouble(one_each(clients), dict.fromkeys(range(1, 7), eager))
    _, report = run(grid, tmp_path)
    assert sorted(grid.summarized()) == sorted(clients)
    assert report.answered == set(clients)
    assert (tmp_path / HEAD).read_bytes() == expected(clients, tmp_path)


@pytest.mark.parametrize("other", [{"participation": 0.5}, {"quorum": 3}])
def test_some_cannot_be_asked_with_one_question(other):
    with pytest.raises(SettingError, match="one-question"):
        Plan(one_question=True, **other)
