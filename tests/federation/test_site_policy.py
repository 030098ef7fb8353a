"""A site's policy over Flower: what the server is sent, told, and refused."""

import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

import grid_double
import numpy as np
from grid_double import JOB, GridDouble, run

from fedcof import FedCOF, FedNCM, SummaryError
from fedcof.client import Sender
from fedcof.federation.answering import answer, summaries
from fedcof.federation.delivering import keep
from fedcof.federation.plan import Plan
from fedcof.federation.readiness import check
from fedcof.federation.records import Answer, Job, Roster
from fedcof.federation.sources import Site, enough_of
from fedcof.privacy import Ledger, LocalPrivacy, MinSamples, Policy, Protected
from fedcof.summaries import from_bytes
from fedcof.transforms import parse

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedcof.errors.OddSiteWarning", "ignore::fedcof.errors.FewMeansWarning"
)

RNG = np.random.default_rng(0)


def client(*sizes):
    """A client with so many samples of the classes 0, 1, ..."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return RNG.normal(size=(len(labels), 3)).astype(np.float32) + labels[:, None], labels


CLIENTS = {"north": client(6, 5, 1), "south": client(2, 2, 2)}


@pytest.fixture
def ask(monkeypatch):
    """Ask a SuperNode of a node configuration, which holds what it is given."""

    def ask(action="summarize", held=CLIENTS, job=JOB, **config):
        monkeypatch.setitem(grid_double.NODES, 1, held)
        config = {name.replace("_", "-"): value for name, value in config.items()}
        context = SimpleNamespace(node_id=1, node_config=config)
        question = {**job.to_record(), "clients": ["north", "south"], "limit": 100_000}
        return answer(action, question, context)

    return ask


@pytest.fixture
def file(tmp_path):
    """The path of a policy file with a text."""

    def file(text):
        path = tmp_path / "policy.toml"
        path.write_text(text)
        return str(path)

    return file


def sent(record):
    return {
        name: from_bytes(data)
        for name, data in Answer.from_record(record, limit=100_000).summaries.items()
    }


@pytest.mark.parametrize("steps", [(), (MinSamples(1),), (MinSamples(2, "merge"),)])
def test_small_classes_do_not_leave_whatever_the_server_asks(ask, steps):
    job = Job(Sender(FedNCM(), steps=steps), data=JOB.data)
    record = ask(job=job, min_samples=5)
    assert sent(record)["north"].counts_by_class == {0: 6, 1: 5}
    assert (record["failed"], record["codes"]) == (["south"], ["withheld:SummaryError"])


def test_every_one_of_several_means_is_of_enough_samples(ask):
    job = Job(Sender(FedCOF(means_per_class=3)), data=JOB.data)
    assert sent(ask(job=job))["north"].counts.min() < 3
    assert sent(ask(job=job, min_samples=3))["north"].counts.tolist() == [3 + 3, 5]


def test_nothing_that_is_withheld_is_announced(ask):
    assert Roster.from_record(ask("describe"), limit=9).classes == {"north": 3, "south": 3}
    for config in ({"min_samples": 5}, {"dry_run": True}):
        roster = Roster.from_record(ask("describe", **config), limit=9)
        assert (roster.classes, roster.samples) == ({}, {})
        assert roster.client_ids == ("north", "south")


def test_how_much_is_withheld_is_told_where_the_site_says_so(ask):
    assert not Answer.from_record(ask(min_samples=5), limit=10_000).withheld
    record = ask(min_samples=5, report_withheld=True)
    assert Answer.from_record(record, limit=10_000).withheld == {"north": (1, 1)}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("methods = ['fedncm']", "policy-methods"),
        ("methods = []", "policy-methods"),
        ("codings = ['int8']", "policy-codings"),
        ("transforms = []", "policy-transforms"),
        ("classes = 'hidden'", "policy-classes"),
        ("epsilon = 1.0\ndelta = 1e-5", "policy-budget"),
    ],
)
def test_a_job_that_asks_for_more_is_refused_with_a_code(ask, file, text, code):
    config = {"policy": file(text)}
    record = ask(**config)
    assert record["codes"] == [f"{code}:PolicyError"] * 2
    assert record["blob"] == b""
    ready = check(JOB.to_record(), SimpleNamespace(node_id=1, node_config=config))
    assert ready["fault"] == f"{code}:PolicyError"
    assert (ready["dim"], ready["summary_bytes"]) == (0, 0)


@pytest.mark.parametrize(
    "config",
    [{"policy": "none.toml"}, {"min_samples": "5"}, {"min_sample": 5}, {"dry_run": "yes"}],
)
def test_a_policy_that_cannot_be_read_answers_nothing(ask, config):
    for action in ("summarize", "describe"):
        record = ask(action, **config)
        assert record["fault"] == "policy:PolicyError"
        assert record.keys() == {"fault", "version"}


def test_refused_data_is_not_even_read(ask, file):
    class Read(dict):
        def __getitem__(self, client_id):
            raise AssertionError("read")

    record = ask(held=Read(north=0, south=0), policy=file("methods = []"))
    assert record["codes"] == ["policy-methods:PolicyError"] * 2


def test_dry_run_says_what_would_leave_and_sends_nothing(ask, caplog):
    with caplog.at_level(logging.INFO, "fedcof"):
        record = ask(dry_run=True)
    assert record["codes"] == ["dry-run:SummaryError"] * 2
    assert record["blob"] == b""
    assert "north: class-means of 3 classes: 0 (6), 1 (5), 2 (1); 9 numbers" in caplog.text


def test_load_data_may_have_a_policy_of_its_own(ask, file):
    held = Protected(CLIENTS, Policy(min_samples=5))
    assert sent(ask(held=held))["north"].counts_by_class == {0: 6, 1: 5}
    assert sent(ask(held=held, min_samples=6))["north"].counts_by_class == {0: 6}
    assert sent(ask(held=held, min_samples=2))["north"].counts_by_class == {0: 6, 1: 5}
    one = Protected(CLIENTS["north"], Policy(methods=[]))
    assert ask("describe", held=one, client_id="north")["clients"] == ["north"]


def test_a_site_may_keep_the_server_from_naming_its_data(ask, file, monkeypatch):
    path = file("own-data-only = true")
    assert ask(policy=path)["fault"] == "no-data:SummaryError"
    assert "north" in sent(ask(policy=path, data=JOB.data))
    held = Protected(CLIENTS, Policy(own_data_only=True))
    assert ask(held=held)["fault"] == "policy-own-data-only:PolicyError"


def test_a_head_is_kept_only_where_the_policy_can_be_read(monkeypatch, tmp_path):
    monkeypatch.setitem(grid_double.NODES, 1, CLIENTS)
    question = JOB.to_record() | Answer({"north": b"head"}).to_record()
    config = {"heads": str(tmp_path / "heads"), "policy": "none.toml"}
    record = keep(question, SimpleNamespace(node_id=1, node_config=config))
    assert record["fault"] == "policy:PolicyError"
    assert not (tmp_path / "heads").exists()


def test_clients_train_on_classes_of_enough_samples_alone():
    features, labels = CLIENTS["north"]
    kept, of = enough_of(Policy(min_samples=5), features, labels)
    assert sorted(set(of.tolist())) == [0, 1]
    np.testing.assert_array_equal(kept, features[labels < 2])
    texts, of = enough_of(Policy(min_samples=2), ["1", "2", "3"], ["a", "a", "b"])
    assert (list(texts), of.tolist()) == (["1", "2"], ["a", "a"])
    with pytest.raises(SummaryError, match="no class has enough"):
        enough_of(Policy(min_samples=5), *CLIENTS["south"])


def test_the_report_of_a_run_says_who_refused_and_who_withholds(tmp_path, file):
    held = {1: {"a": client(6, 6, 1)}, 2: {"b": client(3, 3, 3)}, 3: {"c": client(4, 4)}}
    grid = GridDouble(held | {4: {"d": client(7, 6)}})
    grid.configs = {
        1: {"min-samples": 5, "report-withheld": True},
        2: {"policy": file("methods = ['fed3r']")},
        3: {"dry-run": True},
    }
    head, report = run(grid, tmp_path / "run", plan=Plan(timeout=60, min_clients=1))
    assert report.refused == {
        "b": "policy-methods:PolicyError (at the client)",
        "c": "dry-run:SummaryError (at the client)",
    }
    assert report.withheld == {"a": [1, 1]}
    assert head.classes.tolist() == [0, 1]
    assert type(report).load(tmp_path / "run" / "report.json").withheld == {"a": [1, 1]}


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"min-samples": 5}, "policy-training:PolicyError"),
        ({"policy": "none.toml"}, "policy:PolicyError"),
        ({"dry-run": True}, "dry-run:SummaryError"),
    ],
)
def test_a_client_does_not_train_against_its_policy(monkeypatch, config, code):
    pytest.importorskip("torch")
    from fedcof.federation.training import client as training

    monkeypatch.setitem(grid_double.NODES, 1, CLIENTS)
    monkeypatch.setattr(training, "to_task", lambda content: (None, "north"))
    monkeypatch.setattr(training, "Message", lambda content, reply_to: content)
    asked = {"data": JOB.data, "reading": "{}", "backbone": "", "transform": "none"}
    message = SimpleNamespace(content=SimpleNamespace(config_records={training.CONFIG: asked}))
    reply = training.train(message, SimpleNamespace(node_id=1, node_config=config))
    assert reply.reason == code


def test_the_supernodes_log_has_what_leaves(monkeypatch, capsys):
    from fedcof.federation import client_app

    log = logging.getLogger("fedcof")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", False)  # as where nobody has set up logging
    level = log.level
    try:
        client_app._show_what_leaves()
        logging.getLogger("fedcof.privacy.policy").info("north: two classes")
    finally:
        log.setLevel(level)
    assert "north: two classes" in capsys.readouterr().err


def test_local_noise_spends_the_budget_of_the_site_and_is_refused_when_it_is_spent(ask, file):
    pytest.importorskip("opendp")
    policy = file("epsilon = 9.0\ndelta = 1e-5\n")
    step = LocalPrivacy(epsilon=8.0, classes="0-2")
    job = replace(JOB, sender=Sender(FedNCM(), transform=parse("clip:2"), steps=(step,)))
    held = {"north": client(600, 500, 400)}
    first, second = (ask(held=held, job=job, policy=policy) for _ in range(2))
    assert sent(first)["north"].origin["noise"] == "local-privacy:8:1e-05"
    failed = Answer.from_record(second, limit=100_000).failed
    assert failed["north"] == "privacy-budget:BudgetError"


def test_what_does_not_go_into_an_answer_is_not_spent(ask, file, tmp_path):
    pytest.importorskip("opendp")
    step = LocalPrivacy(epsilon=8.0, classes="0-2")
    sender = Sender(FedNCM(), transform=parse("clip:2"), steps=(step,))
    held = {name: client(600, 500, 400) for name in ("north", "south")}
    size = len(sender.send(*held["north"], client_id="north").data)
    policy = Policy(epsilon=9.0, delta=1e-5, ledger=str(tmp_path / "privacy.db"))
    job, site = replace(JOB, sender=sender), Site(held, policy, dry_run=False)
    assert list(summaries(job, site, ["north", "south"], size + 1).summaries) == ["north"]
    assert list(summaries(job, site, ["south"], size + 1).summaries) == ["south"]


def test_a_dry_run_says_once_of_each_client_what_would_leave(ask, caplog):
    caplog.set_level(logging.INFO, "fedcof.privacy.policy")
    record = ask(dry_run=True)
    assert sorted(record["failed"]) == ["north", "south"]
    assert [line.getMessage().partition(":")[0] for line in caplog.records].count("north") == 1


def test_a_dry_run_spends_nothing(ask, file, tmp_path):
    policy = file("epsilon = 9.0\ndelta = 1e-5\n")
    step = LocalPrivacy(epsilon=8.0, classes="0-2")
    job = replace(JOB, sender=Sender(FedNCM(), transform=parse("clip:2"), steps=(step,)))
    ask(held={"north": client(600, 500)}, job=job, policy=policy, dry_run=True)
    assert Ledger(tmp_path / "privacy.db").spent("north") == 0
