"""The server app as Flower runs it: what it prints, writes and how it ends."""

import pytest

pytest.importorskip("flwr")

import json
import logging
import os
import sqlite3
import stat
from contextlib import closing
from types import SimpleNamespace

from grid_double import GridDouble, make_clients

from fedcof.errors import FedCOFError, RunFolderError, SettingError, TooFewClientsError
from fedcof.federation import server_app
from fedcof.federation.serving import HEAD, STORE
from fedcof.federation.status import STATUS, read_status
from fedcof.federation.store import SummaryStore


@pytest.fixture
def serve(clients, tmp_path, capsys, monkeypatch):
    """Run the server app; return the lines that it printed."""
    monkeypatch.setattr(logging.getLogger("flwr"), "filters", [])

    def serve(grid=None, **config):
        common = {"run-folder": str(tmp_path / "run"), "data": "grid_double:load_data"}
        context = SimpleNamespace(run_config=common | config, node_config={}, node_id=0)
        try:
            server_app.main(grid or GridDouble({1: clients}), context)
        finally:
            serve.told = capsys.readouterr().out.splitlines()
        return serve.told

    return serve


def test_a_complete_run_that_is_started_again_asks_nobody_and_says_so(serve, tmp_path):
    serve()
    head = (tmp_path / "run" / HEAD).read_bytes()
    told = serve()
    assert told[0] == (
        "all 6 clients are there from before: none is asked, the head is solved from what is kept"
    )
    assert (tmp_path / "run" / HEAD).read_bytes() == head


def test_a_site_whose_data_cannot_be_read_is_said_and_not_every_client_counts(
    serve, clients, tmp_path
):
    told = serve(GridDouble({1: clients, 2: SystemExit("patient 42")}))
    assert "SuperNode 2: cannot read its data: raised:SystemExit" in told
    assert told[-1].startswith("done, 1 SuperNodes named no clients: see ")
    status = read_status(tmp_path / "run")
    assert (status.state, status.unnamed, status.set_aside) == ("incomplete", 1, 1)


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_nobody_but_the_owner_may_read_a_run(serve, tmp_path):
    serve()
    folder = tmp_path / "run"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert set(files) == {HEAD, STORE, STATUS, "report.json"}
    assert set(files.values()) == {0o600}
    assert os.umask(0o022) != 0o077


def full_disk(monkeypatch, pages=4):
    """A store on a disk that has room for so many pages of the database."""
    transaction = SummaryStore._transaction

    def on_a_full_disk(store):
        store._database.execute(f"PRAGMA max_page_count = {pages}")
        return transaction(store)

    monkeypatch.setattr(SummaryStore, "_transaction", on_a_full_disk)


def test_a_full_disk_ends_the_run_with_one_line_that_says_how_to_go_on(
    serve, tmp_path, monkeypatch, caplog
):
    grid = GridDouble({1: make_clients(6, dim=2000)})
    with monkeypatch.context() as patch:
        full_disk(patch)
        with pytest.raises(RunFolderError) as caught:
            serve(grid)
    [line] = [one for one in serve.told if one.startswith("error:")]
    assert "database or disk is full. The summaries that are in it are kept" in line
    assert line.endswith("run again with the same run folder")
    logging.getLogger("flwr").error("ServerApp raised an exception", exc_info=caught.value)
    assert "Traceback" not in caplog.text
    assert read_status(tmp_path / "run").state == "failed"
    assert serve(grid)[-1] == "done, every client counts"


def test_a_run_folder_that_has_become_read_only_is_one_line(serve, monkeypatch):
    transaction = SummaryStore._transaction

    def read_only(store):
        store._database.execute("PRAGMA query_only = ON")
        return transaction(store)

    monkeypatch.setattr(SummaryStore, "_transaction", read_only)
    with pytest.raises(RunFolderError, match="attempt to write a readonly database"):
        serve()
    assert len([line for line in serve.told if line.startswith("error:")]) == 1


def test_a_head_that_cannot_be_written_is_no_traceback(serve, tmp_path, monkeypatch):
    def fail(self, path):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("fedcof.federation.report.CollectionReport.save", fail)
    with pytest.raises(RunFolderError, match=r"report.json: No space left on device. What is in"):
        serve()


def test_a_run_folder_below_a_file_is_named(serve, tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(RunFolderError, match="cannot be used as a run folder"):
        serve()


def test_a_fault_of_fedcof_is_one_line_and_its_traceback_a_file(serve, tmp_path, monkeypatch):
    def fail(*args):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(server_app, "run", fail)
    with pytest.raises(ZeroDivisionError):
        serve()
    [line] = serve.told
    path = tmp_path / "run" / "error.log"
    assert line == (
        f"error: ZeroDivisionError: division by zero ({path} has the traceback; what was collected "
        "is kept)"
    )
    assert "in fail" in path.read_text()


def test_lines_of_the_log_are_json_where_that_is_asked_for(serve, tmp_path):
    events = [json.loads(line) for line in serve(**{"log-json": True})]
    names = [event["event"] for event in events]
    assert names[-4:] == ["round", "influence", "head", "end"]
    assert events[-1]["set_aside"] == 0
    assert events[-4]["answered"] == 6
    with pytest.raises(TooFewClientsError):
        serve(**{"log-json": True, "min-clients": 7, "timeout": 0.5})
    assert json.loads(serve.told[-1])["event"] == "error"


def test_the_status_is_in_the_run_folder(serve, tmp_path):
    serve()
    status = read_status(tmp_path / "run")
    assert (status.state, status.known, status.answered, status.set_aside) == ("complete", 6, 6, 0)
    assert (status.nodes, status.online) == (1, 1)
    assert max(status.classes.values()) <= 6
    assert status.timeline[-1][1] == 6
    with pytest.raises(FedCOFError):
        serve(**{"min-clients": 7, "timeout": 0.5})
    status = read_status(tmp_path / "run")
    assert status.state == "failed"
    assert status.message.startswith("no head: 6 clients have answered, at least 7 are needed")


def test_an_attempt_that_is_refused_leaves_the_status_of_the_run_that_is_there(serve, tmp_path):
    """A regression test: the status of a complete run said failed."""
    serve()
    complete = read_status(tmp_path / "run")
    for refused in ({"method": "fed3r"}, {"secure": True}):
        with pytest.raises(FedCOFError):
            serve(**refused)
        assert read_status(tmp_path / "run") == complete
    with pytest.raises(FedCOFError):
        serve(**{"run-folder": str(tmp_path / "another"), "secure": True})
    assert read_status(tmp_path / "another").state == "failed"


def test_a_backup_that_is_taken_while_a_run_goes_on_is_whole(serve, clients, tmp_path):
    with pytest.raises(TooFewClientsError):
        serve(**{"min-clients": 7, "timeout": 0.5})
    run, restored = tmp_path / "run", tmp_path / "restored"
    restored.mkdir(mode=0o700)
    with SummaryStore(run / STORE) as going_on:  # its last summaries are in its journal
        assert (run / f"{STORE}-wal").exists()
        with closing(sqlite3.connect(run / STORE)) as backup:
            backup.execute(f"VACUUM INTO '{restored / STORE}'")
        assert going_on.client_ids() == set(clients)
    told = serve(**{"run-folder": str(restored)})
    assert told[0].startswith("all 6 clients are there from before")


def test_an_unknown_setting_is_one_line(serve):
    with pytest.raises(SettingError):
        serve(**{"log-jsonn": True})
    assert serve.told[0].startswith("error: log-jsonn is no setting of the app")
