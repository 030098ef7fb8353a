"""Secure rounds over a grid in this process: the head, and what drops out, lies and is replayed."""

import pytest

pytest.importorskip("flwr")

import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)
from deploy_loopback import node_key
from flwr.app import ConfigRecord, RecordDict
from grid_double import GridDouble, fail, load_data, make_clients, say
from grid_double import run as open_run

from fedcof import FedCOF, FedNCM, from_bytes
from fedcof.client import Sender, parse_steps
from fedcof.errors import RunFolderError, SettingError, SummaryError, TooFewClientsError
from fedcof.federation.codes import in_words
from fedcof.federation.plan import Plan
from fedcof.federation.records import Job
from fedcof.federation.report import CollectionReport
from fedcof.federation.secure.kept import KeptSums
from fedcof.federation.secure.plan import SecurePlan
from fedcof.federation.secure.rounds import STEPS
from fedcof.federation.secure.serving import serve_securely
from fedcof.federation.secure.statistic import MASK, OPEN, PREPARE
from fedcof.federation.server_app import FlowerGrid
from fedcof.federation.serving import REPORT, STORE, Settings
from fedcof.federation.status import STATUS, Status, read_status
from fedcof.federation.watching import RunWatch, Watching
from fedcof.methods import METHODS
from fedcof.privacy.secure.terms import Terms
from fedcof.privacy.secure.terms import plan as graph
from fedcof.report.run import as_run_page, gather_run
from fedcof.transforms import parse

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedcof.errors.OddSiteWarning", "ignore::fedcof.errors.FewMeansWarning"
)

CLASSES = (0, 1, 2)
PATIENT = Plan(timeout=60, attempts=1)


@pytest.fixture(autouse=True)
def notes(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))


def federation(clients, nodes):
    """A grid whose SuperNodes hold the clients in turn."""
    names = sorted(clients)
    return GridDouble(
        {i + 1: {name: clients[name] for name in names[i::nodes]} for i in range(nodes)}
    )


def run(grid, folder, *, method=None, plan=PATIENT, watch=None, **settings):
    sender = method if isinstance(method, Sender) else Sender(method or FedNCM())
    job = Job(sender, data=f"{load_data.__module__}:load_data")
    secure = {"secure": True, "dropouts": 0.3, **settings.pop("secure", {})}
    head, report, _ = serve_securely(
        FlowerGrid(grid),
        Settings(
            job,
            folder,
            plan,
            **{"classes": CLASSES, **settings},
            secure=SecurePlan(**secure),
        ),
        now=lambda: grid.time,
        sleep=grid.sleep,
        watch=watch,
    )
    return head, report


def open_head(method, clients):
    parts = [
        from_bytes(method.summarize(*data, client_id=name).to_bytes())
        for name, data in clients.items()
    ]
    return method.solve(parts)


def assert_alike(head, expected):
    assert head.classes.tolist() == expected.classes.tolist()
    error = np.abs(head.weight - expected.weight).max() / np.abs(expected.weight).max()
    assert error < 1e-6


@pytest.mark.parametrize("name", ["fedncm", "fed3r", "fedcof", "fedcof-linear-sketch"])
def test_the_head_is_that_of_the_clients_summaries(name, tmp_path):
    clients = make_clients(9, dim=6)
    method = METHODS[name](width=4) if name == "fedcof-linear-sketch" else METHODS[name]()
    head, report = run(federation(clients, 4), tmp_path, method=method)
    assert_alike(head, open_head(method, clients))
    assert report.answered == set(clients)
    assert head.provenance.clients == 9


# Who drops out

EXCHANGES = [PREPARE, 0, 1, MASK, 3, OPEN]
TEN = make_clients(10)


def one_each(clients):
    """A grid with a SuperNode for each client, numbered from 1 in the order of their names."""
    return federation(clients, len(clients))


def exchange_of(message):
    question = message.content["question"]
    return int(question["exchange"]) if "exchange" in question else None


def silent(grid, nodes, exchange, *, times=10**9):
    """Let SuperNodes not answer one step, the first few times that they are asked."""
    left = dict.fromkeys(nodes, times)

    def behave(message, honest):
        node_id = message.metadata.dst_node_id
        if exchange_of(message) == exchange and left[node_id]:
            left[node_id] -= 1
            return 10**6, honest()
        return honest()

    grid.behave |= dict.fromkeys(nodes, behave)


def names_at(clients, nodes):
    return {sorted(clients)[node_id - 1] for node_id in nodes}


def allowed(exchange):
    """How many of ten may drop out of a step with shares of 0.3."""
    terms = Terms(0.1, 0.3, 3)
    return 7 if exchange <= 0 else 10 - max(terms.least, graph(10, terms).threshold)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_clients_that_drop_out_up_to_the_threshold_do_not_end_the_sum(exchange, tmp_path):
    gone = range(1, 1 + allowed(exchange))
    grid = one_each(TEN)
    silent(grid, gone, exchange)
    head, report = run(grid, tmp_path)
    left = TEN.keys() - (names_at(TEN, gone) if exchange <= MASK else set())
    assert_alike(head, open_head(FedNCM(), {name: TEN[name] for name in left}))
    [tried] = report.sums
    assert set(tried.summed) == report.answered == left
    assert tried.dropped.keys() == names_at(TEN, gone)
    assert all(one == f"{STEPS[exchange]}: no answer within 60 s" for one in tried.dropped.values())
    assert report.missing.keys() == TEN.keys() - left


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_one_more_and_nothing_is_opened(exchange, tmp_path):
    grid = one_each(TEN)
    silent(grid, range(1, 2 + allowed(exchange)), exchange)
    with pytest.raises(TooFewClientsError, match="no head"):
        run(grid, tmp_path)
    assert not (tmp_path / "head.safetensors").exists()
    kept = KeptSums(tmp_path).read(0)
    assert kept is None if exchange < OPEN else not kept.totals
    assert CollectionReport.load(tmp_path / REPORT).sums[0].summed == []


def test_an_attempt_that_fails_is_begun_anew_without_those_who_dropped_out(tmp_path):
    gone = range(1, 2 + allowed(MASK))
    grid = one_each(TEN)
    silent(grid, gone, MASK)
    head, report = run(grid, tmp_path, plan=Plan(timeout=60, attempts=2))
    left = TEN.keys() - names_at(TEN, gone)
    assert_alike(head, open_head(FedNCM(), {name: TEN[name] for name in left}))
    first, second = report.sums
    assert "nothing is opened" in first.failed
    assert (set(second.summed), second.failed) == (left, "")


def test_a_sum_that_was_begun_to_be_opened_is_begun_anew_over_the_same_clients(tmp_path):
    grid = one_each(TEN)
    silent(grid, range(1, 2 + allowed(OPEN)), OPEN, times=1)
    head, report = run(grid, tmp_path, plan=Plan(timeout=60, attempts=2))
    assert_alike(head, open_head(FedNCM(), TEN))
    assert [bool(one.summed) for one in report.sums] == [False, True]


def test_a_sum_that_was_begun_to_be_opened_is_not_opened_over_fewer(tmp_path):
    grid = one_each(TEN)
    silent(grid, range(1, 2 + allowed(OPEN)), OPEN)
    with pytest.raises(TooFewClientsError):
        run(grid, tmp_path)
    grid = one_each(TEN)
    silent(grid, [1], MASK)  # the server is started again, and one is gone
    with pytest.raises(TooFewClientsError, match="over the others alone it could tell"):
        run(grid, tmp_path)
    head, _ = run(one_each(TEN), tmp_path)
    assert_alike(head, open_head(FedNCM(), TEN))


def test_the_second_sum_of_fedcof_does_without_a_client(tmp_path):
    grid = one_each(TEN)
    behave = grid.behave

    def gone_in_the_second_sum(message, honest):
        later = len(message.content["question"].get("totals", ())) == 1
        return (10**6, honest()) if later and exchange_of(message) == MASK else honest()

    behave[1] = gone_in_the_second_sum
    head, report = run(grid, tmp_path, method=FedCOF())
    first, second = report.sums
    assert set(first.summed) - set(second.summed) == {"c000"}
    expected = open_head(FedCOF(), TEN)
    assert np.abs(head.weight - expected.weight).max() < 0.1 * np.abs(expected.weight).max()


def test_a_supernode_that_dies_takes_its_clients_only_and_is_then_asked_for_fewer(tmp_path):
    grid = federation(TEN, 4)
    grid.behave[1] = lambda message, honest: (
        fail(message, 8)
        if len(message.content["question"].get("answered", ())) > 1 and exchange_of(message) == MASK
        else honest()
    )
    _, report = run(grid, tmp_path)
    assert TEN.keys() - report.answered == grid.nodes[1].keys()
    assert set(report.missing.values()) == {"masked numbers: its ClientApp died"}
    assert report.nodes == {1: "its ClientApp died"}


# Who lies


def altered(change):
    """Answer honestly but for the masked numbers, which are changed as bytes."""

    def behave(message, honest):
        answer = honest()
        if exchange_of(message) == MASK:
            record = dict(answer.content["answer"])
            blob = change(record["blob"])
            return say(message, **{**record, "blob": blob, "sizes": [len(blob)]})
        return answer

    return behave


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda blob: blob[:-1], "bytes"),
        (lambda blob: blob + b"\0", "bytes"),
        (lambda blob: blob[:40], "bytes"),
        (lambda blob: b"x" * len(blob), "bytes"),
        (lambda blob: blob.replace(b"c000", b"c001"), "address"),
    ],
)
def test_what_is_cut_off_longer_or_foreign_is_left_out(change, code, tmp_path):
    grid = one_each(TEN)
    grid.behave[1] = altered(change)
    head, report = run(grid, tmp_path)
    assert report.missing["c000"].startswith(f"masked numbers: {code}")
    assert_alike(head, open_head(FedNCM(), {name: TEN[name] for name in TEN if name != "c000"}))


def test_an_answer_of_another_step_is_left_out(tmp_path):
    grid, answers = one_each(TEN), {}

    def behave(message, honest):
        exchange = exchange_of(message)
        answers[exchange] = honest()
        if exchange == MASK:
            return say(message, **dict(answers[1].content["answer"]))
        return answers[exchange]

    grid.behave[1] = behave
    _, report = run(grid, tmp_path)
    assert report.missing["c000"].startswith("masked numbers: turn")


def test_one_bit_of_a_vector_breaks_the_sum(tmp_path):
    grid = one_each(TEN)
    grid.behave[1] = altered(lambda blob: blob[:-2] + bytes([blob[-2] ^ 64, blob[-1]]))
    head, _ = run(grid, tmp_path)
    assert head.provenance.samples != 90


def test_a_sum_beyond_what_was_agreed_on_is_told(tmp_path):
    grid = one_each(TEN)
    grid.behave[1] = altered(lambda blob: blob[:-1] + bytes([blob[-1] ^ 64]))
    with pytest.raises(SummaryError, match="a client sent numbers above the bound"):
        run(grid, tmp_path)


def broken(change):
    clients = dict(TEN)
    features, labels = clients["c000"]
    clients["c000"] = change(features.copy(), labels)
    return clients


def with_nan(features, labels):
    features[0, 0] = np.nan
    return features, labels


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (with_nan, "non-finite"),
        (lambda features, labels: (1e6 * features, labels), "range"),
        (lambda features, labels: (features, labels + 1), "classes"),
        (lambda features, labels: (features[:, :2], labels), "origin"),
        (lambda features, labels: (features[:0], labels[:0]), "empty"),
    ],
)
def test_a_client_that_cannot_be_summed_is_refused_before_anything_is_masked(
    change, code, tmp_path
):
    head, report = run(one_each(broken(change)), tmp_path)
    assert report.refused["c000"].startswith(code)
    assert report.sums[0].asked == 9
    assert_alike(head, open_head(FedNCM(), {name: TEN[name] for name in TEN if name != "c000"}))


def test_a_class_that_is_not_on_the_list_is_named_at_the_site_only(tmp_path, caplog):
    clients = broken(lambda features, labels: (features, labels + 70))
    _, report = run(one_each(clients), tmp_path)
    assert report.refused["c000"] == "classes:SummaryError (at the client)"
    [told] = [record for record in caplog.records if "'c000'" in record.message]
    assert "70, 71, 72 is not among the 3 classes" in str(told.exc_info[1])


def test_more_samples_than_were_agreed_on_are_refused(tmp_path):
    clients = dict(TEN)
    clients["c000"] = tuple(np.repeat(part, 2, axis=0) for part in clients["c000"])
    _, report = run(one_each(clients), tmp_path, plan=Plan(timeout=60, attempts=1, max_samples=9))
    assert report.refused == {"c000": "samples:SummaryError (at the client)"}


def test_a_question_is_answered_once_even_where_the_state_was_not_kept(tmp_path):
    grid, answers = one_each(TEN), []

    def behave(message, honest):
        if exchange_of(message) != OPEN:
            return honest()
        before = RecordDict({name: ConfigRecord(dict(one)) for name, one in grid.states[1].items()})
        first = honest()
        grid.states[1] = before
        answers.append(honest())
        return first

    grid.behave[1] = behave
    run(grid, tmp_path)
    [again] = answers
    assert list(again.content["answer"]["codes"]) == ["asked-twice:SummaryError"]


def test_a_client_does_not_open_a_sum_that_it_is_not_in(tmp_path):
    grid, answers = one_each(TEN), []

    def behave(message, honest):
        answer = honest()
        if exchange_of(message) == OPEN:
            answers.append(honest())  # its state is wiped
        return answer

    grid.behave[1] = behave
    run(grid, tmp_path)
    assert list(answers[0].content["answer"]["codes"]) == ["out-of-turn:SummaryError"]
    assert not grid.states[1]["fedcof-secure"]


# Noise

NOISED = {"epsilon": 8.0, "delta": 1e-5, "radius": 4.0}


def clipped(method):
    return Sender(method, transform=parse("clip:4"))


def test_noise_under_masks_stands_in_the_provenance(tmp_path):
    clients = make_clients(10, seed=3)
    many = {name: tuple(np.repeat(part, 100, axis=0) for part in clients[name]) for name in clients}
    grid = one_each(many)
    silent(grid, [1], MASK)
    head, report = run(
        grid,
        tmp_path,
        method=clipped(FedCOF()),
        secure=NOISED,
        plan=replace(PATIENT, max_samples=900),
    )
    assert [one.number for one in report.sums] == [1]
    privacy = head.provenance.privacy
    assert (privacy["epsilon"], privacy["delta"], privacy["neighbours"]) == (8.0, 1e-5, "sample")
    assert privacy["honest"] == 6  # of ten: three may drop out, one may collude
    assert "simulated" not in privacy["mechanism"]
    expected = open_head(FedCOF(), {name: many[name] for name in many if name != "c000"})
    assert 0 < np.abs(head.weight - expected.weight).max() < np.abs(expected.weight).max()


def test_with_too_few_shares_of_noise_nothing_is_opened(tmp_path):
    grid = one_each(TEN)
    silent(grid, [1, 2, 3, 4], MASK)
    with pytest.raises(TooFewClientsError):
        run(grid, tmp_path, method=clipped(FedNCM()), secure=NOISED)
    assert KeptSums(tmp_path).read(0) is None


def test_a_site_with_a_budget_takes_part_until_it_is_spent(tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text("epsilon = 9.0\ndelta = 1e-5")
    many = {
        name: tuple(np.repeat(part, 100, axis=0) for part in held) for name, held in TEN.items()
    }
    settings = {
        "method": clipped(FedNCM()),
        "secure": NOISED,
        "plan": replace(PATIENT, max_samples=900),
    }
    missing = []
    for number in range(2):
        grid = one_each(many)
        grid.configs[1] = {"policy": str(policy)}
        _, report = run(grid, tmp_path / f"run-{number}", **settings)
        missing.append({**report.missing, **report.refused})
    assert missing == [{}, {"c000": "privacy-budget:BudgetError (at the client)"}]


def test_noise_needs_features_of_limited_length(tmp_path):
    with pytest.raises(SettingError, match="transform must end with clip:4"):
        run(one_each(TEN), tmp_path, secure=NOISED)


@pytest.mark.parametrize(
    ("steps", "secure", "words"),
    [
        ("min-samples:2", {}, "min-samples must not stand beside noise by sample"),
        ("count-noise:laplace:0.5", {}, "count-noise is for what a client sends alone"),
        ("none", {"neighbours": "client"}, "max-samples must be given"),
    ],
)
def test_noise_is_refused_where_it_is_not_made_for_what_is_summed(steps, secure, words, tmp_path):
    grid, sender = one_each(TEN), replace(clipped(FedNCM()), steps=parse_steps(steps))
    with pytest.raises(SettingError, match=words):
        run(grid, tmp_path, method=sender, secure={**NOISED, **secure})
    assert grid.asked == []


def test_a_site_that_withholds_small_classes_takes_no_part_in_noise_by_sample(tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text("min-samples = 2")
    many = {
        name: tuple(np.repeat(part, 100, axis=0) for part in held) for name, held in TEN.items()
    }
    refused = []
    for neighbours in ("sample", "client"):
        grid = one_each(many)
        grid.configs[1] = {"policy": str(policy)}
        head, report = run(
            grid,
            tmp_path / neighbours,
            method=clipped(FedNCM()),
            secure={**NOISED, "epsilon": 50.0, "neighbours": neighbours},
            plan=replace(PATIENT, max_samples=900),
        )
        refused.append({name: why.partition(":")[0] for name, why in report.refused.items()})
        assert head.provenance.privacy["neighbours"] == neighbours
    assert refused == [{"c000": "policy-min-samples"}, {}]


def test_a_sum_that_is_kept_is_not_taken_for_one_with_other_noise(tmp_path):
    many = {
        name: tuple(np.repeat(part, 100, axis=0) for part in held) for name, held in TEN.items()
    }
    settings = {"method": clipped(FedNCM()), "plan": replace(PATIENT, max_samples=900)}
    run(one_each(many), tmp_path, secure=NOISED, **settings)
    with pytest.raises(RunFolderError):
        run(one_each(many), tmp_path, secure={**NOISED, "epsilon": 1.0}, **settings)


def test_noise_on_a_sum_needs_a_sum(tmp_path):
    with pytest.raises(SettingError, match="epsilon needs secure=true"):
        Settings(Job(clipped(FedNCM())), tmp_path, secure=SecurePlan(epsilon=1.0))


# What is kept


def test_the_page_of_a_run_says_who_took_part_and_who_dropped_out(tmp_path):
    grid = one_each(TEN)
    silent(grid, [1], 3)
    run(grid, tmp_path)
    Status(state="complete").save(tmp_path / STATUS)
    page = as_run_page(gather_run(tmp_path))
    for words in ("Sums over the clients", "masked numbers", "confirmation: no answer within 60 s"):
        assert words in page


def test_a_client_that_is_gone_when_keys_are_asked_for_has_no_bad_key(tmp_path):
    grid = one_each(TEN)
    silent(grid, [1], 0)
    grid.behave[2] = altered(lambda blob: blob[:-1])
    run(grid, tmp_path)
    Status(state="complete").save(tmp_path / STATUS)
    [told] = [part for part in gather_run(tmp_path).parts if part.anchor == "set-aside"]
    gone, cut_off = told.rows
    assert (gone["why"], gone["what to do"]) == ("keys: no answer within 60 s", "")
    assert cut_off["what to do"] == in_words("bytes")


def test_the_status_counts_the_clients_of_a_sum(tmp_path):
    grid = one_each(TEN)
    silent(grid, [1], MASK)
    with RunWatch(tmp_path / STATUS, Watching(), print) as watch:
        run(grid, tmp_path, watch=watch)
    status = read_status(tmp_path)
    assert (status.state, status.known, status.asked) == ("incomplete", 10, 10)
    assert (status.answered, status.waiting) == (9, 0)
    assert status.missing == {"masked numbers: no answer within 60 s": 1}
    assert status.wire_bytes > 0


def test_nothing_of_one_client_is_kept_or_said(tmp_path, capfd):
    clients = make_clients(10, dim=16, seed=7)
    grid = federation(clients, 3)
    folder = tmp_path / "run"
    run(grid, folder, method=FedCOF())
    told = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    told += "".join(capfd.readouterr()).encode()
    for features, labels in clients.values():
        for label in CLASSES:
            rows = features[labels == label]
            for array in (rows[:1], rows.mean(axis=0), rows.sum(axis=0)) if len(rows) else ():
                for kind in (np.float32, np.float64):
                    assert np.asarray(array, kind).tobytes()[:16] not in told
    with closing(sqlite3.connect(folder / STORE)) as database:
        assert database.execute("SELECT * FROM summaries").fetchall() == []


def test_a_run_that_is_complete_asks_nobody_again(tmp_path):
    head, _ = run(one_each(TEN), tmp_path, method=FedCOF())
    grid = one_each(TEN)
    again, report = run(grid, tmp_path, method=FedCOF())
    assert {action for _, action, _ in grid.asked} <= {"describe"}
    assert again.to_bytes() == head.to_bytes()
    assert report.resumed == set(TEN)


def test_a_server_that_is_killed_between_two_sums_goes_on_with_the_second(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        write = KeptSums.write

        def killed(self, phase, kept):
            if phase == 1 and kept.totals:
                raise KeyboardInterrupt
            write(self, phase, kept)

        patch.setattr(KeptSums, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            run(one_each(TEN), tmp_path, method=FedCOF())
    head, report = run(one_each(TEN), tmp_path, method=FedCOF())
    assert [one.number for one in report.sums] == [2]
    assert_alike(head, open_head(FedCOF(), TEN))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_server_that_is_killed_in_a_step_begins_the_sum_anew(exchange, tmp_path):
    grid = one_each(TEN)

    def killed(message, honest):
        answer = honest()
        if exchange_of(message) == exchange:
            raise KeyboardInterrupt
        return answer

    grid.behave[5] = killed
    with pytest.raises(KeyboardInterrupt):
        run(grid, tmp_path)
    del grid.behave[5]
    head, report = run(grid, tmp_path)
    assert_alike(head, open_head(FedNCM(), TEN))
    assert report.answered == set(TEN)


def test_a_client_cannot_be_taken_out_of_a_sum(tmp_path):
    run(one_each(TEN), tmp_path)
    with pytest.raises(RunFolderError, match="cannot be taken out of a sum"):
        run(one_each(TEN), tmp_path, plan=Plan(timeout=60, withdraw="c000"))
    assert (tmp_path / "head.safetensors").exists()


def test_an_open_run_and_a_secure_one_do_not_share_a_folder(tmp_path):
    run(one_each(TEN), tmp_path)
    with pytest.raises(RunFolderError, match="secure"):
        open_run(one_each(TEN), tmp_path)


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        (METHODS["fedpft-diagonal"](), {}, "fedncm, fed3r"),
        (FedNCM(robust=True), {}, "robust needs"),
        (FedNCM(), {"classes": ()}, "classes must name all classes"),
        (FedNCM(), {"site_heads": True}, "site-heads needs what single clients send"),
        (FedNCM(), {"min_clients_per_class": 2}, "min-clients-per-class needs"),
        (FedNCM(), {"plan": Plan(quorum=3)}, "quorum needs"),
        (FedNCM(), {"plan": Plan(participation=0.5)}, "participation needs"),
    ],
)
def test_what_needs_more_than_sums_is_refused_before_anybody_is_asked(
    method, settings, words, tmp_path
):
    grid = one_each(TEN)
    with pytest.raises(SettingError, match=words):
        run(grid, tmp_path, method=method, **settings)
    assert grid.asked == []


def test_a_secure_run_assumes_of_its_clients_what_its_protocol_does():
    assert SecurePlan().terms(Plan()) == Terms()


def test_two_clients_are_not_summed(tmp_path):
    with pytest.raises(TooFewClientsError, match="2 clients can be summed, at least 3"):
        run(one_each(make_clients(2)), tmp_path)


# What the sites allow


@pytest.mark.parametrize("method", [FedNCM(), FedCOF()], ids=lambda method: method.name)
def test_a_site_with_hidden_classes_answers_and_what_its_policy_withholds_is_zeros(
    method, tmp_path
):
    policy = tmp_path / "policy.toml"
    policy.write_text("classes = 'hidden'\nmin-samples = 3\n")
    grid = one_each(TEN)
    grid.configs = {node: {"policy": str(policy)} for node in grid.nodes}
    head, report = run(grid, tmp_path / "run", method=method)
    assert report.answered == set(TEN)
    enough = {
        name: (x[kept], y[kept])
        for name, (x, y) in TEN.items()
        for kept in [np.bincount(y, minlength=3)[y] >= 3]
    }
    assert any(len(y) < 9 for _, y in enough.values())
    assert_alike(head, open_head(method, enough))


def test_a_site_that_does_not_allow_it_is_refused_with_a_code(tmp_path):
    (tmp_path / "policy.toml").write_text("methods = ['fed3r']\n")
    (tmp_path / "budget.toml").write_text("epsilon = 1.0\ndelta = 1e-5\n")
    grid = one_each(TEN)
    grid.configs = {
        1: {"policy": str(tmp_path / "policy.toml")},
        2: {"policy": str(tmp_path / "budget.toml")},
        3: {"dry-run": True},
    }
    _, report = run(grid, tmp_path / "run")
    codes = {name: reason.partition(":")[0] for name, reason in report.refused.items()}
    assert codes == {"c000": "policy-methods", "c001": "policy-budget", "c002": "dry-run"}


# Whose keys they are


@pytest.fixture
def keys(tmp_path):
    """The key of each of ten SuperNodes: its file, and as the SuperLink has it."""
    found = {}
    for node_id in range(1, 11):
        path = tmp_path / f"site-{node_id}"
        node_key(path)
        public = load_ssh_public_key(path.with_name(f"{path.name}.pub").read_bytes())
        found[node_id] = path, public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found


def signing(keys, tmp_path, *, known=True):
    grid = one_each(TEN)
    names = sorted(TEN)
    roster = tmp_path / "known.csv"
    lines = [
        f"{names[i - 1]}, {path.with_name(path.name + '.pub').read_text()}"
        for i, (path, _) in keys.items()
    ]
    roster.write_text("\n".join(line.strip() for line in lines))
    for node_id, (path, pem) in keys.items():
        grid.keys[node_id] = pem
        grid.configs[node_id] = {"signing-key": str(path)}
        if known:
            grid.configs[node_id]["known-sites"] = str(roster)
    return grid, roster


def test_sites_sign_with_the_keys_of_their_supernodes(keys, tmp_path):
    grid, _ = signing(keys, tmp_path)
    head, report = run(grid, tmp_path / "run")
    assert_alike(head, open_head(FedNCM(), TEN))
    assert not report.missing


def test_a_signature_by_another_key_than_the_supernodes_is_refused(keys, tmp_path):
    grid, _ = signing(keys, tmp_path, known=False)
    grid.configs[1]["signing-key"] = str(keys[2][0])
    _, report = run(grid, tmp_path / "run")
    assert report.missing["c000"].startswith("keys: signature")


def test_a_site_takes_no_keys_but_those_of_the_sites_that_it_knows(keys, tmp_path):
    grid, roster = signing(keys, tmp_path)
    lines = roster.read_text().splitlines()
    other = lines[1].partition(",")[2]
    roster.write_text("\n".join([f"c000,{other}", *lines[1:]]))
    with pytest.raises(TooFewClientsError):
        run(grid, tmp_path / "run")  # a key that nobody knows is in the list of all
    [tried] = CollectionReport.load(tmp_path / "run" / REPORT).sums
    assert set(tried.dropped.values()) == {"shares: signature:SecureError (at the client)"}


def test_sites_that_sign_nothing_are_not_taken_by_those_with_a_list(keys, tmp_path):
    grid, _ = signing(keys, tmp_path)
    del grid.configs[1]["signing-key"]
    with pytest.raises(TooFewClientsError):
        run(grid, tmp_path / "run")


def test_a_site_may_ask_for_more_than_the_server_offers(tmp_path):
    grid = one_each(TEN)
    grid.configs[1] = {"colluders": 0.3}
    _, report = run(grid, tmp_path)
    assert report.missing["c000"].startswith("keys: terms:SecureError")
