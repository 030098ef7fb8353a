"""What may happen to a federation, one property a test, over a grid in this process."""

import pytest

pytest.importorskip("flwr")

import sqlite3
from dataclasses import replace

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from grid_double import (
    JOB,
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

from fedcof.client import Sender
from fedcof.data import by_column
from fedcof.errors import RunFolderError, TooFewClientsError
from fedcof.experiments import Dealt, evaluate
from fedcof.federation.collecting import Collector
from fedcof.federation.plan import Plan
from fedcof.federation.records import Answer
from fedcof.federation.server_app import FlowerGrid
from fedcof.federation.serving import HEAD, STORE, Settings, serve
from fedcof.federation.store import SummaryStore
from fedcof.federation.watching import Watch
from fedcof.methods import FedCOF
from fedcof.summaries import from_bytes


def head_bytes(folder):
    return (folder / HEAD).read_bytes()


# Everybody answers


def test_head_is_that_of_one_process(clients, expected, tmp_path):
    run(GridDouble(one_each(clients)), tmp_path)
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_random_sets_of_a_client_are_those_of_one_process(tmp_path):
    method, clients = FedCOF(means_per_class=2), make_clients(4)
    features, labels = (np.concatenate(parts) for parts in zip(*clients.values(), strict=True))
    partition = by_column(np.repeat(list(clients), 9))
    head = evaluate(Sender(method, 5), Dealt(features, labels, partition, features, labels))[1]
    head.save(tmp_path / "expected")
    run(GridDouble({1: clients}), tmp_path, job=replace(JOB, sender=Sender(method, seed=5)))
    assert head_bytes(tmp_path) == (tmp_path / "expected").read_bytes()


def test_one_supernode_may_hold_all_clients(clients, expected, tmp_path):
    grid = GridDouble({7: clients})
    _, report = run(grid, tmp_path)
    assert grid.asked == [(7, "describe", ()), (7, "summarize", tuple(sorted(clients)))]
    assert report.answered == report.asked == set(clients)
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_a_supernode_is_asked_on_before_its_answer_is_kept(clients, tmp_path, monkeypatch):
    grid, keep, asked = GridDouble({7: clients}), SummaryStore.add, []

    def add(store, arrived):
        asked.append(set(grid.summarized()) - set(arrived))
        return keep(store, arrived)

    monkeypatch.setattr(SummaryStore, "add", add)
    _, report = run(grid, tmp_path, plan=Plan(timeout=60, max_message=1000))
    assert len(asked) > 1
    assert set(clients) >= asked[0] > set()
    assert sorted(grid.asked[2][2]) == sorted(asked[0])
    assert report.answered == set(clients)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(data=st.data())
def test_head_does_not_depend_on_who_holds_whom_and_who_is_first(
    data, clients, expected, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("run")
    run(data.draw(dealt(clients)), folder, plan=Plan(timeout=60, min_clients=6))
    assert head_bytes(folder) == expected(clients, folder)


def test_supernodes_are_asked_in_the_order_of_their_registration(clients, tmp_path):
    class Registered(GridDouble):
        def get_nodes(self):
            for node in super().get_nodes():
                node.registered_at = f"2026-01-0{8 - node.node_id}T00:00:00+00:00"
                yield node

    grid = Registered(one_each(clients))
    run(grid, tmp_path)
    assert [node_id for node_id, *_ in grid.asked] == [6, 5, 4, 3, 2, 1] * 2


def test_looking_at_the_grid_takes_at_most_half_of_the_time(clients, tmp_path):
    class Slow(GridDouble):
        slept = 0.0
        looking = 0.0

        def sleep(self, seconds):
            self.slept += seconds
            super().sleep(seconds)

        def pull_messages(self, message_ids):
            self.time += 3 * len(message_ids)
            self.looking += 3 * len(message_ids)
            return super().pull_messages(message_ids)

    grid = Slow(one_each(clients), dict.fromkeys(range(1, 7), lambda message, honest: 20))
    run(grid, tmp_path, plan=Plan(timeout=600))
    assert grid.slept >= grid.looking / 2


def test_answers_are_cut_where_a_message_would_be_too_large(clients, expected, tmp_path):
    grid = GridDouble({1: clients})
    _, report = run(grid, tmp_path, plan=Plan(timeout=60, max_message=1000))
    assert report.answered == set(clients)
    assert sum(action == "summarize" for _, action, _ in grid.asked) == 3
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_bytes_are_those_of_the_summaries(clients, tmp_path):
    _, report = run(GridDouble(one_each(clients)), tmp_path)
    with SummaryStore(tmp_path / STORE, Settings(JOB, tmp_path).fingerprint) as store:
        assert report.wire_bytes == sum(len(s.to_bytes()) for s in store.summaries())


# Somebody does not


def nan(clients, name):
    features, labels = clients[name]
    return clients | {name: (features * np.nan, labels)}


def test_client_with_nan_is_named_and_the_others_unharmed(clients, expected, tmp_path):
    _, report = run(GridDouble({1: nan(clients, "c002")}), tmp_path)
    assert report.refused == {"c002": "non-finite:SummaryError (at the client)"}
    assert head_bytes(tmp_path) == expected(without(clients, "c002"), tmp_path)


def test_client_whose_data_raises_is_named_without_the_text(clients, tmp_path):
    clients["c002"] = (np.zeros((9, 4), np.float32), ["patient 42"])
    _, report = run(GridDouble({1: clients}), tmp_path)
    assert report.refused == {"c002": "labels:SummaryError (at the client)"}


def test_supernode_whose_load_data_raises_is_named_without_the_text(clients, expected, tmp_path):
    nodes = one_each(clients) | {3: ImportError("patient 42")}
    _, report = run(GridDouble(nodes), tmp_path)
    assert report.nodes == {3: "cannot read its data: raised:ImportError"}
    assert head_bytes(tmp_path) == expected(without(clients, "c002"), tmp_path)


def test_supernode_that_leaves_by_sys_exit_is_named(clients, tmp_path):
    nodes = one_each(clients) | {3: SystemExit("patient 42")}
    _, report = run(GridDouble(nodes), tmp_path)
    assert report.nodes == {3: "cannot read its data: raised:SystemExit"}


@pytest.mark.parametrize("other", [{"dim": 5}, {"labels": "names"}])
@pytest.mark.parametrize("name", ["c000", "c003"])
def test_client_that_does_not_fit_the_others_is_named_even_if_it_is_first(
    other, name, clients, expected, tmp_path
):
    features, labels = clients[name]
    if "dim" in other:
        clients[name] = (np.zeros((9, 5), np.float32), labels)
    else:
        clients[name] = (features, labels.astype(str))
    _, report = run(GridDouble(one_each(clients)), tmp_path)
    assert list(report.misfit) == [name]
    assert name not in report.accepted
    assert head_bytes(tmp_path) == expected(without(clients, name), tmp_path)


def test_client_with_absurdly_large_features_is_named_and_the_others_unharmed(
    clients, expected, tmp_path
):
    features, labels = clients["c002"]
    clients["c002"] = (np.full_like(features, 1e30), labels)
    _, report = run(GridDouble(one_each(clients)), tmp_path)
    assert report.misfit.keys() == {"c002"}
    assert report.misfit["c002"].startswith("scale ")
    assert head_bytes(tmp_path) == expected(without(clients, "c002"), tmp_path)


def test_client_with_a_foreign_class_is_named(clients, expected, tmp_path):
    features, labels = clients["c001"]
    clients["c001"] = (features, labels + 1)
    _, report = run(GridDouble({1: clients}), tmp_path, classes=(0, 1, 2))
    assert "not among the 3 of this federation" in report.refused["c001"]
    assert head_bytes(tmp_path) == expected(without(clients, "c001"), tmp_path)


def test_number_of_classes_is_limited(clients, tmp_path):
    clients["c005"] = (clients["c005"][0], np.arange(9) + 100)
    _, report = run(GridDouble({1: clients}), tmp_path, plan=Plan(timeout=60, max_classes=3))
    assert report.refused == {"c005": "classes: more than 3 classes in all"}


def test_number_of_classes_is_limited_over_all_runs(clients, tmp_path):
    first = without(clients, "c005")
    run(GridDouble({1: first}), tmp_path)
    clients["c005"] = (clients["c005"][0], np.arange(9) // 5 + 100)
    _, report = run(GridDouble({1: clients}), tmp_path, plan=Plan(timeout=60, max_classes=4))
    assert list(report.refused) == ["c005"]


def test_number_of_clients_is_limited(clients, tmp_path):
    nodes = {1: without(clients, "c005"), 2: {f"x{i}": clients["c000"] for i in range(9)}}
    _, report = run(GridDouble(nodes), tmp_path, plan=Plan(timeout=60, max_clients=8))
    assert report.nodes == {2: "names 9 clients; at most 3 are allowed"}
    assert report.accepted == set(clients) - {"c005"}


def lies(**record):
    """Answer questions for summaries with any record, others honestly."""

    def behave(message, honest):
        summarize = message.metadata.message_type == "query.summarize"
        return say(message, **record) if summarize else honest()

    return behave


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({}, "no list of answered"),
        ({"blob": 3}, "no list of answered"),
        ({"fault": "patient 42"}, "cannot read its data: unclear"),
        (
            {"answered": [], "sizes": [], "blob": b"", "failed": [], "codes": []},
            "mentions none of the clients",
        ),
        (
            {"answered": ["c002"], "sizes": [9], "blob": b"0", "failed": [], "codes": []},
            "sizes do not fit",
        ),
    ],
)
def test_supernode_that_talks_nonsense_is_given_up(record, reason, clients, expected, tmp_path):
    grid = GridDouble(one_each(clients), {3: lies(**record)})
    _, report = run(grid, tmp_path)
    assert reason in report.nodes[3]
    assert reason in report.missing["c002"]
    assert grid.summarized().count("c002") == 3
    assert head_bytes(tmp_path) == expected(without(clients, "c002"), tmp_path)


def test_corrupt_summary_is_refused(clients, tmp_path):
    lie = lies(answered=["c002"], sizes=[4], blob=b"evil", failed=[], codes=[])
    _, report = run(GridDouble(one_each(clients), {3: lie}), tmp_path)
    assert report.refused["c002"].startswith("corrupt: ")


def test_summary_of_another_client_is_not_taken(clients, expected, tmp_path):
    """Neither under its own name nor under that of the client that was asked."""
    other = FedCOF().summarize(*clients["c001"], client_id="c004").to_bytes()
    lie = lies(**Answer({"c002": other, "c004": other}).to_record())
    _, report = run(GridDouble(one_each(clients), {3: lie}), tmp_path)
    assert report.refused["c002"].startswith("client-ids: ")
    assert "not asked for" in report.nodes[3]
    assert head_bytes(tmp_path) == expected(without(clients, "c002"), tmp_path)


def test_answer_that_breaks_flower_itself_is_a_fault_of_its_supernode_alone(
    clients, expected, tmp_path
):
    behave = lambda message, honest: KeyError("hostile object")  # noqa: E731
    _, report = run(GridDouble(one_each(clients), {3: behave}), tmp_path)
    assert report.nodes == {3: "malformed answer (KeyError)"}
    assert head_bytes(tmp_path) == expected(without(clients, "c002"), tmp_path)


def test_a_malformed_answer_costs_the_others_that_were_pulled_with_it_no_fault(clients, tmp_path):
    grid = GridDouble(one_each(clients))
    grid.behave[3] = lambda message, honest: KeyError("x")
    _, report = run(grid, tmp_path, plan=Plan(timeout=60, attempts=1))
    assert report.nodes == {3: "malformed answer (KeyError)"}
    assert len(report.answered) == len(clients) - 1
    assert grid.time < 60


def test_answer_without_the_record_is_a_fault(clients, tmp_path):
    def behave(message, honest):
        return Message(RecordDict({"other": ConfigRecord()}), reply_to=message)

    _, report = run(GridDouble(one_each(clients), {3: behave}), tmp_path)
    assert report.nodes == {3: "malformed answer (no record)"}


def test_text_of_flowers_errors_is_not_in_the_report(clients, tmp_path):
    behave = {3: lambda message, honest: fail(message, 2, "patient 42")}
    _, report = run(GridDouble(one_each(clients), behave), tmp_path)
    report.save(tmp_path / "saved")
    assert report.nodes == {3: "its ClientApp raised an exception"}
    assert "patient" not in (tmp_path / "saved").read_text()


def dies_with(*names):
    """Kill the process of the ClientApp when one of these clients is in question."""

    def behave(message, honest):
        asked = message.content["question"].get("clients", [])
        return fail(message, 8) if set(names) & set(asked) else honest()

    return behave


@pytest.mark.parametrize("bad", [["c000"], ["c099"], ["c010", "c011"], ["c003", "c050", "c090"]])
def test_clients_that_kill_their_process_are_found_and_the_others_of_the_node_unharmed(
    bad, expected, tmp_path
):
    clients = make_clients(100)
    grid = GridDouble({1: clients}, {1: dies_with(*bad)})
    _, report = run(grid, tmp_path)
    assert report.missing == dict.fromkeys(bad, "its ClientApp died")
    assert report.answered == set(clients) - set(bad)
    assert len(grid.asked) < 60
    assert head_bytes(tmp_path) == expected(without(clients, *bad), tmp_path)


def test_supernode_that_dies_once_is_asked_again(clients, expected, tmp_path):
    faults = [5, 8]

    def behave(message, honest):
        return fail(message, faults.pop()) if faults else honest()

    _, report = run(GridDouble(one_each(clients), {3: behave}), tmp_path)
    assert report.missing == {}
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_supernode_that_fails_two_times_of_three_answers_for_all_in_the_end(expected, tmp_path):
    clients, calls = make_clients(20), []

    def behave(message, honest):
        calls.append(message)
        return honest() if len(calls) % 3 == 0 else fail(message, 8)

    _, report = run(GridDouble({1: clients}, {1: behave}), tmp_path)
    assert report.answered == set(clients)
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


# Time


def slow(seconds, times=1):
    """Take longer over the first questions for summaries."""
    left = [seconds] * times

    def behave(message, honest):
        summarize = message.metadata.message_type == "query.summarize"
        return left.pop() if summarize and left else honest()

    return behave


def test_question_that_cannot_be_sent_is_sent_again_after_a_pause(clients, expected, tmp_path):
    refusals = [None, None]
    grid = GridDouble({3: clients})
    grid.behave[3] = lambda message, honest: refusals.pop() if refusals else honest()
    run(grid, tmp_path)
    assert grid.time == 2
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_clients_are_looked_through_once_a_second_while_nothing_changes(
    clients, tmp_path, monkeypatch
):
    looks, look = [], Collector._to_ask
    monkeypatch.setattr(
        Collector, "_to_ask", lambda self, online: looks.append(grid.time) or look(self, online)
    )
    grid = GridDouble({3: clients}, {3: slow(20.0)})
    clock = {"now": lambda: grid.time, "sleep": grid.sleep, "pause": 0.125}
    serve(FlowerGrid(grid), Settings(JOB, tmp_path, Plan(timeout=60)), **clock)
    assert 20 <= len(looks) <= 25


def test_silent_client_is_missing_after_its_attempts(clients, expected, tmp_path):
    grid = GridDouble(one_each(clients), {3: slow(1e9, times=9)})
    _, report = run(grid, tmp_path)
    assert report.missing == {"c002": "no answer within 60 s"}
    assert grid.summarized().count("c002") == 3
    assert 180 <= grid.time < 200
    assert head_bytes(tmp_path) == expected(without(clients, "c002"), tmp_path)


def test_late_answer_counts_and_is_named(clients, expected, tmp_path):
    grid = GridDouble(one_each(clients), {3: slow(90, times=2)})
    _, report = run(grid, tmp_path)
    assert report.late == {"c002"}
    assert report.missing == {}
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_late_fault_does_not_count_against_a_supernode_again(clients, expected, tmp_path):
    delayed = [(70, 3), (55, None)]

    def behave(message, honest):
        if message.metadata.message_type == "query.describe":
            return honest()
        seconds, code = delayed.pop(0)
        return (seconds, fail(message, code) if code else honest())

    plan = Plan(timeout=60, attempts=2)
    _, report = run(GridDouble(one_each(clients), {3: behave}), tmp_path, plan=plan)
    assert report.nodes == {}
    assert report.missing == {}
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_same_summary_twice_counts_once(clients, expected, tmp_path):
    """c002 answers late, and once more while c003 is still awaited."""
    grid = GridDouble(one_each(clients), {3: slow(90, times=2), 4: slow(170, times=3)})
    _, report = run(grid, tmp_path)
    assert report.duplicate == {"c002"}
    assert report.conflicting == set()
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_second_different_summary_is_reported_and_the_first_counts(clients, expected, tmp_path):
    grid = GridDouble(one_each(clients), {4: slow(170, times=3)})
    other = clients["c001"]
    asked = []

    def behave(message, honest):
        if message.metadata.message_type == "query.describe":
            return honest()
        asked.append(message)
        if len(asked) == 2:
            grid.nodes[3] = {"c002": other}
            return 70
        return 90

    grid.behave[3] = behave
    _, report = run(grid, tmp_path)
    assert report.conflicting == {"c002"}
    assert report.duplicate == set()
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_supernode_that_comes_back_is_asked_again(clients, expected, tmp_path):
    grid = GridDouble(one_each(clients))

    def dies(message, honest):
        if message.metadata.message_type == "query.describe":
            return honest()
        grid.behave.pop(3)
        grid.offline.add(3)
        grid.at[grid.time + 50] = grid.offline.clear
        return fail(message, 5)

    grid.behave[3] = dies
    _, report = run(grid, tmp_path)
    assert report.missing == {}
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_supernode_that_comes_back_under_another_id_is_the_same_client(clients, expected, tmp_path):
    grid = GridDouble(one_each(clients))

    def dies(message, honest):
        if message.metadata.message_type == "query.describe":
            return honest()
        grid.offline.add(3)
        grid.at[grid.time + 50] = lambda: grid.nodes.update({99: grid.nodes.pop(3)})
        return fail(message, 5)

    grid.behave[3] = dies
    _, report = run(grid, tmp_path)
    assert report.missing == {}
    assert report.shared == {"c002"}
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_supernode_that_does_not_come_back_is_given_up(clients, expected, tmp_path):
    grid = GridDouble(one_each(clients))

    def dies(message, honest):
        if message.metadata.message_type == "query.describe":
            return honest()
        grid.offline.add(3)
        return fail(message, 5)

    grid.behave[3] = dies
    _, report = run(grid, tmp_path)
    assert report.missing == {"c002": "its SuperNode is offline"}
    assert 60 <= grid.time < 70
    assert head_bytes(tmp_path) == expected(without(clients, "c002"), tmp_path)


def test_client_at_two_supernodes_is_asked_for_once_and_named(clients, tmp_path):
    nodes = {1: clients, 2: {"c002": clients["c002"]}}
    grid = GridDouble(nodes)
    _, report = run(grid, tmp_path)
    assert report.shared == {"c002"}
    assert grid.summarized().count("c002") == 1


def test_client_of_a_supernode_given_up_is_asked_for_at_the_other(clients, expected, tmp_path):
    nodes = {1: clients, 2: {"c002": clients["c002"]}}
    grid = GridDouble(nodes, {2: lies()})
    _, report = run(grid, tmp_path)
    assert report.missing == {}
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_server_waits_for_the_clients_it_needs(clients, expected, tmp_path):
    grid = GridDouble(one_each(clients))
    grid.offline = {4, 5, 6}
    grid.at[30] = grid.offline.clear
    run(grid, tmp_path, plan=Plan(timeout=60, min_clients=6))
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_supernode_that_joins_later_is_asked_in_another_round(clients, expected, tmp_path):
    grid = GridDouble(one_each(clients), {1: slow(20)})
    grid.offline = {6}
    grid.at[10] = grid.offline.clear
    _, report = run(grid, tmp_path)
    assert report.rounds == 2
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_supernode_that_is_slow_to_name_its_clients_is_waited_for_once(clients, expected, tmp_path):
    """Its two answers, the first of them late, are one SuperNode."""
    nodes = {1: without(clients, "c000"), 2: {"c000": clients["c000"]}}
    delays = {1: [70, 30, 1], 2: [0, 55]}
    behave = {n: lambda message, honest, its=delays[n]: its.pop(0) for n in nodes}
    _, report = run(GridDouble(nodes, behave), tmp_path, plan=Plan(timeout=60, min_clients=6))
    assert delays == {1: [], 2: []}
    assert report.nodes == {}
    assert report.shared == set()
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_supernode_that_leaves_before_it_names_its_clients_is_not_waited_for(
    clients, expected, tmp_path
):
    grid = GridDouble(one_each(clients))

    def leaves(message, honest):
        grid.offline.add(3)
        return 1e9

    grid.behave[3] = leaves
    run(grid, tmp_path)
    assert grid.time < 60
    assert head_bytes(tmp_path) == expected(without(clients, "c002"), tmp_path)


def test_supernode_that_does_not_name_its_clients_in_time_is_named(clients, tmp_path):
    grid = GridDouble(one_each(clients), {3: lambda message, honest: 1e9})
    _, report = run(grid, tmp_path)
    assert report.nodes == {3: "has not named its clients in time"}
    assert report.answered == set(clients) - {"c002"}


def test_client_given_up_whose_supernode_comes_back_between_rounds_is_asked_again(
    clients, expected, tmp_path
):
    grid = GridDouble(one_each(clients))

    def dies(message, honest):
        if message.metadata.message_type == "query.describe":
            return honest()
        grid.offline.add(3)
        return fail(message, 5)

    def joins():
        grid.nodes[99] = {"c002": clients["c002"]}

    grid.behave[3] = dies
    grid.behave[99] = lambda message, honest: 3
    grid.at[58.5] = joins
    _, report = run(grid, tmp_path, plan=Plan(participation=0.9, timeout=60))
    assert report.missing == {}
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


# Rounds


def test_every_client_is_asked_in_one_round_only(tmp_path):
    clients = make_clients(10)
    grid = GridDouble({1: clients})
    _, report = run(grid, tmp_path, plan=Plan(participation=0.3, timeout=60))
    rounds = [names for _, action, names in grid.asked if action == "summarize"]
    assert [len(names) for names in rounds] == [3, 3, 3, 1]
    assert sorted(grid.summarized()) == sorted(clients)
    assert report.rounds == 4


def test_last_round_gives_the_head_of_a_single_round(expected, tmp_path):
    clients = make_clients(10)
    run(GridDouble(one_each(clients)), tmp_path, plan=Plan(participation=0.3, timeout=60))
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_head_is_there_after_every_round(expected, tmp_path):
    clients, seen = make_clients(10), []
    grid = GridDouble({1: clients})
    heads = []

    class Heads(Watch):
        def tell(self, text, event, **fields):
            if event == "round" and seen:
                before = {name: clients[name] for name in seen}
                heads.append(head_bytes(tmp_path) == expected(before, tmp_path))
            if event == "round":
                seen[:] = grid.summarized()

    serve(
        FlowerGrid(grid),
        Settings(JOB, tmp_path, Plan(participation=0.3, timeout=60)),
        watch=Heads(),
        now=lambda: grid.time,
        sleep=grid.sleep,
    )
    assert heads == [True] * 3


def test_rounds_are_drawn_by_the_seed(tmp_path):
    drawn = []
    for i, seed in enumerate((0, 0, 1)):
        grid = GridDouble({1: make_clients(10)})
        plan = Plan(participation=0.3, rounds=1, timeout=60)
        run(
            grid, tmp_path / str(i), plan=plan, job=replace(JOB, sender=Sender(FedCOF(), seed=seed))
        )
        drawn.append(grid.summarized())
    assert drawn[0] == drawn[1] != drawn[2]


def test_number_of_rounds_is_kept(expected, tmp_path):
    clients = make_clients(10)
    grid = GridDouble({1: clients})
    _, report = run(grid, tmp_path, plan=Plan(participation=0.3, rounds=2, timeout=60))
    assert len(report.accepted) == 6
    seen = {name: clients[name] for name in report.accepted}
    assert head_bytes(tmp_path) == expected(seen, tmp_path)


def test_quorum_is_enough(clients, tmp_path):
    grid = GridDouble(one_each(clients), {6: slow(1e9, times=9)})
    _, report = run(grid, tmp_path, plan=Plan(quorum=5, timeout=60))
    assert grid.time < 60
    assert report.missing == {"c005": "not waited for: the quorum was reached"}
    assert len(report.accepted) == 5


# Is it enough for a head?


def test_too_few_clients_make_no_head_but_are_kept(clients, expected, tmp_path):
    grid = GridDouble(one_each(clients) | {3: ImportError()})
    with pytest.raises(TooFewClientsError, match="5 clients have answered, at least 6 are needed"):
        run(grid, tmp_path, plan=Plan(min_clients=6, timeout=60))
    assert not (tmp_path / HEAD).exists()
    again = GridDouble(one_each(clients))
    run(again, tmp_path, plan=Plan(min_clients=6, timeout=60))
    assert again.summarized() == ["c002"]
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_too_few_clients_of_a_class_make_no_head(clients, tmp_path):
    clients = {n: (x[y < 2], y[y < 2]) for n, (x, y) in clients.items()} | {"c005": clients["c005"]}
    with pytest.raises(TooFewClientsError, match="1 clients hold class 2, at least 2"):
        run(GridDouble({1: clients}), tmp_path, min_clients_per_class=2)
    run(GridDouble({1: clients}), tmp_path, min_clients_per_class=1)


def test_class_that_nobody_holds_makes_no_head_where_every_class_is_demanded(clients, tmp_path):
    with pytest.raises(TooFewClientsError, match="0 clients hold class 3"):
        run(GridDouble({1: clients}), tmp_path, classes=(0, 1, 2, 3), min_clients_per_class=1)


def test_one_class_makes_no_head(clients, tmp_path):
    clients = {n: (x[y < 1], y[y < 1]) for n, (x, y) in clients.items() if (y < 1).any()}
    with pytest.raises(TooFewClientsError, match="fewer than two classes"):
        run(GridDouble({1: clients}), tmp_path)


def test_no_supernode_at_all_is_told_after_the_time_to_wait(tmp_path):
    grid = GridDouble({})
    with pytest.raises(TooFewClientsError, match="0 clients"):
        run(grid, tmp_path)
    assert 60 <= grid.time < 70


# Killed and started again


class Killed(BaseException):
    """Not an Exception: nothing in the server may catch it."""


def killed_run(grid, folder, after):
    """Run until `after` clients are accepted, then die."""
    left = [after]

    def advance(steps):
        left[0] -= steps
        if steps and left[0] <= 0:
            raise Killed

    with pytest.raises(Killed):
        serve(
            FlowerGrid(grid),
            Settings(JOB, folder, Plan(participation=0.5, timeout=60)),
            advance=advance,
            now=lambda: grid.time,
            sleep=grid.sleep,
        )


@pytest.mark.parametrize("after", range(1, 7))
@pytest.mark.parametrize("spread", [True, False])
def test_killed_after_any_client_it_asks_only_those_missing(
    after, spread, clients, expected, tmp_path
):
    nodes = one_each(clients) if spread else {1: clients}
    killed_run(GridDouble(nodes), tmp_path, after)
    grid = GridDouble(nodes)
    _, report = run(grid, tmp_path, plan=Plan(participation=0.5, timeout=60))
    # All that came in one answer is kept at once: with one SuperNode, the three clients of a round.
    assert len(report.resumed) == (after if spread else 3 * -(-after // 3))
    assert sorted([*grid.summarized(), *report.resumed]) == sorted(clients)
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


class DyingStore(SummaryStore):
    """Dies before or after one of its transactions."""

    left = 0

    def add(self, *args):
        DyingStore.left -= 1
        if DyingStore.left == 0:
            raise Killed
        return super().add(*args)

    def open_round(self, *args):
        DyingStore.left -= 1
        if DyingStore.left == 0:
            raise Killed
        return super().open_round(*args)


@pytest.mark.parametrize("transaction", range(1, 9))
def test_killed_before_any_transaction_nothing_is_lost_or_counted_twice(
    transaction, clients, expected, tmp_path, monkeypatch
):
    plan = Plan(participation=0.5, timeout=60)
    with monkeypatch.context() as patch:
        DyingStore.left = transaction
        patch.setattr("fedcof.federation.serving.SummaryStore", DyingStore)
        with pytest.raises(Killed):
            run(GridDouble(one_each(clients)), tmp_path, plan=plan)
    grid = GridDouble(one_each(clients))
    _, report = run(grid, tmp_path, plan=plan)
    assert sorted([*grid.summarized(), *report.resumed]) == sorted(clients)
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_killed_in_the_second_of_two_rounds_it_asks_nobody_of_a_third(tmp_path):
    clients = make_clients(10)
    plan = Plan(participation=0.3, rounds=2, timeout=60)
    grid = GridDouble({1: clients})
    run(grid, tmp_path / "whole", plan=plan)
    DyingStore.left = 4  # round, its answer, round, its answer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedcof.federation.serving.SummaryStore", DyingStore)
        with pytest.raises(Killed):
            run(GridDouble({1: clients}), tmp_path / "killed", plan=plan)
    run(GridDouble({1: clients}), tmp_path / "killed", plan=plan)
    assert head_bytes(tmp_path / "killed") == head_bytes(tmp_path / "whole")


def test_finished_run_started_again_asks_nobody(clients, tmp_path):
    run(GridDouble({1: clients}), tmp_path)
    first = head_bytes(tmp_path)
    (tmp_path / HEAD).unlink()
    grid = GridDouble({1: clients})
    run(grid, tmp_path)
    assert grid.summarized() == []
    assert head_bytes(tmp_path) == first


def test_finished_run_started_again_needs_no_supernode(clients, tmp_path):
    run(GridDouble({1: clients}), tmp_path)
    (tmp_path / HEAD).unlink()
    grid = GridDouble({})
    run(grid, tmp_path)
    assert (tmp_path / HEAD).exists()
    assert grid.time < 60


def test_settings_of_the_server_may_change_between_runs(clients, expected, tmp_path):
    run(GridDouble({1: clients}), tmp_path)
    method = FedCOF(shrinkage=0.1)
    run(GridDouble({}), tmp_path, job=replace(JOB, sender=Sender(method)))
    assert head_bytes(tmp_path) == expected(clients, tmp_path, method)


def test_other_job_in_the_same_folder_is_refused(clients, tmp_path):
    run(GridDouble({1: clients}), tmp_path)
    with pytest.raises(RunFolderError, match="seed = 0, this run has seed = 1"):
        run(GridDouble({1: clients}), tmp_path, job=replace(JOB, sender=Sender(FedCOF(), seed=1)))


def test_refused_client_that_is_mended_counts_in_the_next_run(clients, expected, tmp_path):
    run(GridDouble({1: nan(clients, "c002")}), tmp_path)
    grid = GridDouble({1: clients})
    run(grid, tmp_path)
    assert grid.summarized() == ["c002"]
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_misfit_that_is_mended_counts_in_the_next_run(clients, expected, tmp_path):
    wrong = clients | {"c002": (np.zeros((9, 5), np.float32), clients["c002"][1])}
    run(GridDouble({1: wrong}), tmp_path)
    grid = GridDouble({1: clients})
    run(grid, tmp_path)
    assert grid.summarized() == ["c002"]
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


# Plan


@pytest.mark.parametrize(
    "wrong",
    [
        {"participation": 0.0},
        {"participation": 1.1},
        {"participation": float("nan")},
        {"timeout": 0.0},
        {"timeout": float("inf")},
        {"rounds": -1},
        {"quorum": -1},
        {"min_clients": 0},
        {"attempts": 0},
        {"max_message": 0},
    ],
)
def test_plan_that_makes_no_sense_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Plan(**wrong)


def test_client_whose_summary_in_the_run_folder_is_damaged_is_asked_again(
    clients, expected, tmp_path
):
    run(GridDouble({1: clients}), tmp_path)
    with sqlite3.connect(tmp_path / STORE) as database:
        database.execute("UPDATE summaries SET data = x'00' WHERE client_id = 'c002'")
    _, report = run(GridDouble({1: without(clients, "c002")}), tmp_path)
    assert "c002" in report.missing
    grid = GridDouble({1: clients})
    _, report = run(grid, tmp_path)
    assert grid.summarized() == ["c002"]
    assert report.missing == {}
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


# Lies


def test_count_above_what_its_supernode_announced_is_refused(clients, expected, tmp_path):
    def lie(message, honest):
        reply = honest()
        record = reply.content["answer"]
        if "blob" not in record:
            return reply
        lying = replace(from_bytes(record["blob"]), counts=np.full(3, 2**40)).to_bytes()
        return say(message, **dict(record) | {"blob": lying, "sizes": [len(lying)]})

    _, report = run(GridDouble(one_each(clients), {2: lie}), tmp_path)
    assert set(report.refused) == {"c001"}
    assert "announced 9" in report.refused["c001"]
    assert head_bytes(tmp_path) == expected(without(clients, "c001"), tmp_path)


def test_who_moves_the_head_most_is_in_the_report_the_largest_first(clients, tmp_path):
    name = "c001"
    clients[name] = (-2 * clients[name][0], clients[name][1])
    _, report = run(GridDouble(one_each(clients)), tmp_path, plan=Plan(timeout=60, accept=name))
    assert next(iter(report.influence)) == name
    shifts = [shift for shift, _ in report.influence.values()]
    assert shifts == sorted(shifts, reverse=True)


def test_who_moves_the_head_too_far_is_set_aside(clients, expected, tmp_path):
    clients["c001"] = (3 * clients["c001"][0], clients["c001"][1])
    grid = GridDouble(one_each(clients))
    _, report = run(grid, tmp_path, plan=Plan(timeout=60, accept="c001"))
    name, shift = next((name, shift) for name, (shift, _) in report.influence.items())
    _, report = run(grid, tmp_path, plan=Plan(timeout=60, max_influence=shift - 1e-6))
    assert f"max-influence is {shift - 1e-6:g}" in report.misfit[name]
    assert head_bytes(tmp_path) == expected(without(clients, *report.misfit), tmp_path)
