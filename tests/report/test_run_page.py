import pytest
from runs_of_federations import HOSTILE, write_run
from typer.testing import CliRunner

from fedcof.cli import app
from fedcof.federation.status import STATUS, read_status
from fedcof.report.run import as_run_page, gather_run, is_run

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedcof.errors.OddSiteWarning", "ignore::fedcof.errors.FewMeansWarning"
)


@pytest.fixture
def folder(tmp_path):
    write_run(tmp_path)
    return tmp_path


def test_page_says_what_became_of_everybody(folder):
    page = as_run_page(gather_run(folder))
    for text in (
        "a summary that is longer than `max-message`; raise `max-message` at the server",
        "its SuperNode is offline",
        "its clock is 1:00:00 ahead of the server",
        "as if its classes were permuted",
        "north 4",
        "84.0%",
        "90.0%",
        "12,345",
        "SuperNode 9 may not answer for it",
        "0.75",
    ):
        assert text in page


def test_clients_with_the_most_influence_come_first(folder):
    [table] = [part for part in gather_run(folder).parts if part.anchor == "table"]
    assert [row["client"] for row in table.rows[:3]] == ["north 3", "north 1", "north 0"]
    assert table.rows[0]["others' labels"] == "0.4%"


def test_what_others_wrote_is_text_on_the_page(folder):
    page = as_run_page(gather_run(folder))
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_part_of_which_nothing_is_known_is_left_out(tmp_path):
    write_run(tmp_path)
    (tmp_path / "history.json").unlink()
    titles = [part.title for part in gather_run(tmp_path).parts]
    assert "The head on the server's test set" not in titles


def test_report_takes_a_run_folder(folder, tmp_path):
    done = CliRunner().invoke(app, ["report", str(folder), "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "Every client" in (tmp_path / "out" / "report.html").read_text()
    done = CliRunner().invoke(app, ["report", str(folder), "--markdown"])
    assert done.exit_code == 1
    assert "not for a run folder" in done.output


def test_a_long_run_shows_its_first_clients(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcof.report.run._MOST_ROWS", 3)
    write_run(tmp_path)
    [table] = [part for part in gather_run(tmp_path).parts if part.anchor == "table"]
    assert (len(table.rows), table.note) == (3, "The first 3 of 5.")


def test_is_run_knows_a_run_folder(folder, tmp_path):
    assert is_run(folder)
    assert not is_run(tmp_path / "nothing")
    assert read_status(folder).known == 7
    assert (folder / STATUS).exists()


def test_a_run_that_ended_before_its_first_round_is_told_as_a_run(folder):
    (folder / "report.json").unlink()
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert "has ended: fedcof status" in said
    assert "reproduce" not in said
