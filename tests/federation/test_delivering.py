"""Heads of sites on their way home, over a grid in this process."""

import pytest

pytest.importorskip("flwr")

from grid_double import JOB, GridDouble, run
from typer.testing import CliRunner

from fedcof import FedCOF, LinearHead, from_bytes, site_heads
from fedcof.cli import app
from fedcof.federation.plan import Plan
from fedcof.federation.report import CollectionReport
from fedcof.federation.serving import REPORT, SITE_HEADS


@pytest.fixture
def homes(tmp_path):
    return {1: tmp_path / "home 1", 2: tmp_path / "home 2"}


@pytest.fixture
def grid(clients, homes):
    first = {name: held for name, held in clients.items() if name < "c003"}
    rest = {name: held for name, held in clients.items() if name >= "c003"}
    configs = {node_id: {"heads": str(home)} for node_id, home in homes.items()}
    return GridDouble({1: first, 2: rest}, configs=configs)


def kept(folder):
    return {path.stem: path.read_bytes() for path in folder.glob("*.safetensors")}


def expected(clients):
    parts = [
        from_bytes(FedCOF().summarize(*held, client_id=name).to_bytes())
        for name, held in clients.items()
    ]
    sending = JOB.sender.settings()
    return {
        name: head.with_provenance(sending=sending).to_bytes()
        for name, head in site_heads(FedCOF(), parts).items()
    }


@pytest.mark.parametrize("max_message", [1, 1 << 20])
def test_every_site_gets_its_own_head_and_no_other(grid, clients, homes, tmp_path, max_message):
    run(grid, tmp_path / "run", site_heads=True)
    grid.asked.clear()
    plan = Plan(timeout=60, max_message=max_message)
    _, report = run(grid, tmp_path / "run", site_heads=True, plan=plan)
    assert report.undelivered == {}
    heads = expected(clients)
    assert kept(homes[1]) | kept(homes[2]) == kept(tmp_path / "run" / SITE_HEADS) == heads
    assert sorted(kept(homes[1])) == ["c000", "c001", "c002"]
    questions = [asked for asked in grid.asked if asked[1] == "keep"]
    assert len(questions) == (6 if max_message == 1 else 2)


def test_a_site_that_names_no_folder_keeps_nothing(grid, homes, tmp_path):
    del grid.configs[2]
    _, report = run(grid, tmp_path / "run", site_heads=True)
    assert set(report.undelivered) == {"c003", "c004", "c005"}
    assert set(report.undelivered.values()) == {"no-heads-folder (at the client)"}
    assert CollectionReport.load(tmp_path / "run" / REPORT).undelivered == report.undelivered
    assert not homes[2].exists()


def test_a_site_that_is_offline_gets_its_head_in_a_later_run(grid, homes, tmp_path):
    run(grid, tmp_path / "run")
    grid.offline = {2}
    _, report = run(grid, tmp_path / "run", site_heads=True)
    assert set(report.undelivered.values()) == {"its SuperNode is offline"}
    assert sorted(kept(homes[1])) == ["c000", "c001", "c002"]
    grid.offline = set()
    _, report = run(grid, tmp_path / "run", site_heads=True)
    assert report.undelivered == {}
    assert sorted(kept(homes[2])) == ["c003", "c004", "c005"]


def test_a_site_that_is_silent_or_fails_is_named_and_the_others_have_theirs(grid, homes, tmp_path):
    run(grid, tmp_path / "run")
    for behaviour, reason in (
        (lambda message, honest: 1000, "no answer within 60 s"),
        (lambda message, honest: None, "the question could not be sent"),
        (lambda message, honest: RuntimeError(), "malformed answer (RuntimeError)"),
    ):
        grid.behave[2] = lambda message, honest, b=behaviour: (
            b(message, honest) if message.metadata.message_type == "query.keep" else honest()
        )
        _, report = run(grid, tmp_path / "run", site_heads=True)
        assert set(report.undelivered.values()) == {reason}
        assert sorted(kept(homes[1])) == ["c000", "c001", "c002"]


def test_after_a_client_has_left_the_heads_of_the_others_are_made_again(grid, clients, tmp_path):
    run(grid, tmp_path, site_heads=True)
    result = CliRunner().invoke(app, ["withdraw", "c004", str(tmp_path)])
    assert result.exit_code == 0, result.output
    del clients["c004"]
    assert kept(tmp_path / SITE_HEADS) == expected(clients)
    assert LinearHead.load(tmp_path / SITE_HEADS / "c000.safetensors").provenance.clients == 5
