"""Federations that change: clients that join, leave and come back, over a grid in this process."""

import pytest

pytest.importorskip("flwr")

import json
from dataclasses import replace

import numpy as np
from grid_double import JOB, GridDouble, run, without
from typer.testing import CliRunner

from fedcof import FedCOF, from_bytes
from fedcof.cli import app
from fedcof.client import Sender
from fedcof.errors import RunFolderError, SettingError, TooFewClientsError
from fedcof.federation.plan import Plan
from fedcof.federation.report import CollectionReport
from fedcof.federation.serving import HEAD, REPORT, STORE, Settings, opened
from fedcof.federation.store import SummaryStore


def withdraw(*arguments):
    return CliRunner().invoke(app, ["withdraw", *map(str, arguments)])


def head_bytes(folder):
    return (folder / HEAD).read_bytes()


def plan(**settings):
    return Plan(timeout=60, **settings)


def bytes_of(clients, name):
    """What is sent of a client that no header shares: the numbers of its means."""
    features, labels = clients[name]
    return from_bytes(FedCOF().summarize(features, labels).to_bytes()).means.tobytes()


def files_with(folder, piece):
    return [path.name for path in folder.iterdir() if piece in path.read_bytes()]


# Joining


def test_a_supernode_that_joins_later_makes_the_head_of_all_at_once(clients, expected, tmp_path):
    nodes = {1: without(clients, "c004", "c005")}
    run(GridDouble(nodes), tmp_path)
    later = GridDouble(nodes | {2: {"c004": clients["c004"]}, 3: {"c005": clients["c005"]}})
    _, report = run(later, tmp_path)
    assert later.summarized() == ["c004", "c005"]
    assert report.resumed == set(nodes[1])
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_a_class_that_comes_later_makes_the_head_grow(clients, expected, tmp_path):
    features, labels = clients["c005"]
    clients["c005"] = features, labels + 1
    run(GridDouble({1: without(clients, "c005")}), tmp_path, classes=(0, 1, 2))
    _, report = run(GridDouble({1: clients}), tmp_path, classes=(0, 1, 2))
    assert report.refused["c005"].startswith("classes: ")
    head, _ = run(GridDouble({1: clients}), tmp_path, classes=(0, 1, 2, 3))
    assert head.classes.tolist() == [0, 1, 2, 3]
    assert head_bytes(tmp_path) == expected(clients, tmp_path)


def test_classes_do_not_shrink_below_what_is_kept(clients, tmp_path):
    run(GridDouble({1: clients}), tmp_path)
    with pytest.raises(RunFolderError, match=r"holds the summary of client 'c000'.*\[2\]"):
        run(GridDouble({1: clients}), tmp_path, classes=(0, 1))


# Leaving


@pytest.fixture
def by_command(clients, tmp_path):
    """A run of six clients that one has left by the command."""
    run(GridDouble({1: clients}), tmp_path)
    assert files_with(tmp_path, bytes_of(clients, "c002"))
    result = withdraw("c002", tmp_path)
    assert result.exit_code == 0, result.output
    assert "c002 has withdrawn; of 5 clients now" in result.output
    return tmp_path


@pytest.fixture
def by_run_configuration(clients, tmp_path):
    run(GridDouble({1: clients}), tmp_path)
    grid = GridDouble({1: clients})
    run(grid, tmp_path, plan=plan(withdraw="c002"))
    assert grid.summarized() == []
    return tmp_path


every_way = pytest.mark.parametrize("way", ["by_command", "by_run_configuration"])


@every_way
def test_the_head_is_that_of_a_federation_in_which_it_never_was(way, request, clients, expected):
    folder = request.getfixturevalue(way)
    assert head_bytes(folder) == expected(without(clients, "c002"), folder)


@every_way
def test_none_of_its_bytes_is_left_in_the_run_folder(way, request, clients):
    folder = request.getfixturevalue(way)
    assert files_with(folder, bytes_of(clients, "c002")) == []
    assert files_with(folder, bytes_of(clients, "c003")) == [STORE]


@every_way
def test_the_report_says_that_it_has_left_and_nothing_else_of_it(way, request):
    report = json.loads((request.getfixturevalue(way) / REPORT).read_text())
    assert report.pop("withdrawn") == ["c002"]
    assert "c002" not in json.dumps(report)


@every_way
def test_it_is_not_asked_again_though_its_supernode_answers_for_it(way, request, clients, expected):
    folder = request.getfixturevalue(way)
    grid = GridDouble({1: clients | {"new": clients["c000"]}})
    _, report = run(grid, folder)
    assert grid.summarized() == ["new"]
    assert report.withdrawn == {"c002"}
    others = without(clients, "c002") | {"new": clients["c000"]}
    assert head_bytes(folder) == expected(others, folder)


@every_way
def test_it_comes_back_when_it_is_readmitted(way, request, clients, expected):
    folder = request.getfixturevalue(way)
    if way == "by_command":
        assert withdraw("c002", folder, "--readmit").exit_code == 0
    grid = GridDouble({1: clients})
    run(grid, folder, plan=plan(readmit="" if way == "by_command" else "c002"))
    assert grid.summarized() == ["c002"]
    assert head_bytes(folder) == expected(clients, folder)


def test_who_is_named_as_leaving_and_as_coming_back_is_refused(clients, tmp_path):
    with pytest.raises(SettingError, match="readmit names 'c002', and so does withdraw"):
        run(GridDouble({1: clients}), tmp_path, plan=plan(withdraw="c002", readmit="c002"))


def test_who_leaves_before_the_first_run_is_never_asked(clients, expected, tmp_path):
    grid = GridDouble({1: clients})
    run(grid, tmp_path, plan=plan(withdraw="c002, c003"))
    assert set(grid.summarized()) == set(clients) - {"c002", "c003"}
    assert head_bytes(tmp_path) == expected(without(clients, "c002", "c003"), tmp_path)


def test_who_leaves_while_it_is_asked_is_not_let_in(clients, expected, tmp_path):
    def leave():
        with SummaryStore(tmp_path / STORE) as store:
            store.withdraw(["c002"])

    nodes = {i: {name: held} for i, (name, held) in enumerate(clients.items())}
    behave = {2: lambda message, honest: 30}
    grid = GridDouble(nodes, behave, at={45: leave})
    _, report = run(grid, tmp_path)
    assert report.withdrawn == {"c002"}
    assert report.answered == set(without(clients, "c002"))
    assert head_bytes(tmp_path) == expected(without(clients, "c002"), tmp_path)


def test_who_leaves_after_it_has_answered_does_not_count_in_the_run_that_goes_on(
    clients, expected, tmp_path
):
    def leave():
        assert withdraw("c002", tmp_path).exit_code == 0

    nodes = {i: {name: held} for i, (name, held) in enumerate(clients.items())}
    grid = GridDouble(nodes, {5: lambda message, honest: 30}, at={45: leave})
    _, report = run(grid, tmp_path)
    assert report.accepted == set(without(clients, "c002"))
    assert files_with(tmp_path, bytes_of(clients, "c002")) == []
    assert head_bytes(tmp_path) == expected(without(clients, "c002"), tmp_path)


def test_a_client_that_has_left_does_not_count_as_one_to_wait_for(clients, tmp_path):
    run(GridDouble({1: clients}), tmp_path)
    with pytest.raises(TooFewClientsError, match="5 clients have answered, at least 6"):
        run(GridDouble({1: clients}), tmp_path, plan=plan(min_clients=6, withdraw="c002"))
    assert not (tmp_path / HEAD).exists()


def test_no_head_stays_where_too_few_are_left_and_fewer_can_be_allowed(clients, tmp_path):
    run(GridDouble({1: clients}), tmp_path, plan=plan(min_clients=6))
    result = withdraw("c002", tmp_path)
    assert "there is no head any more: 5 clients have answered, at least 6" in result.output
    assert not (tmp_path / HEAD).exists()
    assert withdraw("c002", tmp_path, "--min-clients", 5).exit_code == 0
    assert (tmp_path / HEAD).exists()


@pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")
def test_the_head_is_made_again_with_the_settings_of_the_run(clients, tmp_path):
    method = FedCOF(shrinkage=0.25, scatter="both", means_per_class=2)
    features, labels = clients["c001"]
    clients["c001"] = 30 * features, labels  # odd, and accepted
    job = replace(JOB, sender=Sender(method))
    run(GridDouble({1: clients}), tmp_path / "all", job=job, plan=plan(accept="c001"))
    others = GridDouble({1: without(clients, "c002")})
    run(others, tmp_path / "never", job=job, plan=plan(accept="c001"))
    assert withdraw("c002", tmp_path / "all").exit_code == 0
    assert head_bytes(tmp_path / "all") == head_bytes(tmp_path / "never")


def test_a_name_that_nobody_knows_is_an_error(clients, tmp_path):
    run(GridDouble({1: clients}), tmp_path)
    head = head_bytes(tmp_path)
    result = withdraw("c02", tmp_path)
    assert result.exit_code == 1
    assert "knows no client 'c02', but 'c000', 'c001'" in result.output
    assert "'c02' has not withdrawn" in withdraw("c02", tmp_path, "--readmit").output
    assert head_bytes(tmp_path) == head


def test_a_kill_in_the_middle_leaves_no_head_and_doing_it_again_goes_on(
    clients, expected, tmp_path, monkeypatch
):
    run(GridDouble({1: clients}), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(SummaryStore, "_erase", lambda store: 1 / 0)
        assert withdraw("c002", tmp_path).exit_code == 1
    assert not (tmp_path / HEAD).exists()
    assert withdraw("c002", tmp_path).exit_code == 0
    assert files_with(tmp_path, bytes_of(clients, "c002")) == []
    assert head_bytes(tmp_path) == expected(without(clients, "c002"), tmp_path)


def test_a_process_that_reads_is_in_the_way_of_erasing_and_that_is_said(clients, tmp_path):
    run(GridDouble({1: clients}), tmp_path)
    settings = Settings.kept(tmp_path)
    with opened(settings) as store, opened(settings) as reader:
        store._database.execute("PRAGMA busy_timeout = 10")
        reading = reader._database.execute("SELECT data FROM summaries")
        reading.fetchone()
        with pytest.raises(RunFolderError, match="in use by another process"):
            store.withdraw(["c002"])
        reading.close()
        store.withdraw(["c002"])
    assert files_with(tmp_path, bytes_of(clients, "c002")) == []


def test_what_was_dropped_before_is_erased_too(clients, tmp_path):
    features, labels = clients["c002"]
    run(GridDouble({1: clients | {"c002": (1e4 * features, labels)}}), tmp_path)
    run(GridDouble({1: clients}), tmp_path)  # the misfit is dropped, and sent anew
    assert withdraw("c002", tmp_path).exit_code == 0
    for data in (clients, {"c002": (np.float32(1e4) * features, labels)}):
        assert files_with(tmp_path, bytes_of(data, "c002")) == []


def test_what_was_trained_with_a_client_is_named(clients, tmp_path):
    run(GridDouble({1: clients}), tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert "model.safetensors was trained before that" in withdraw("c002", tmp_path).output


def test_a_folder_without_a_run_is_no_run_folder(tmp_path):
    with pytest.raises(RunFolderError, match="is no run folder"):
        Settings.kept(tmp_path)
    (tmp_path / STORE).touch()
    with pytest.raises(RunFolderError, match="written by another program"):
        Settings.kept(tmp_path)


def test_a_report_comes_back_from_its_file(clients, tmp_path):
    nodes = {1: clients, 2: ImportError("no data"), 3: {"c000": clients["c000"]}}
    _, report = run(GridDouble(nodes), tmp_path, plan=plan(withdraw="c001"))
    assert CollectionReport.load(tmp_path / REPORT) == report


def test_a_run_folder_is_collected_into_a_data_set_without_whoever_has_left(clients, tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    run(GridDouble({1: clients}), tmp_path / "run")
    assert withdraw("c001", tmp_path / "run").exit_code == 0
    done = CliRunner().invoke(app, ["collect", str(tmp_path / "run"), "--out", str(tmp_path / "d")])
    assert done.exit_code == 0, done.output
    (path,) = (tmp_path / "d").iterdir()
    names = parquet.read_table(path)["client"].unique().to_pylist()
    assert names == sorted(without(clients, "c001"))
