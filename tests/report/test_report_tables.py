import pytest
from tiny_experiments import EXPERIMENT, rows_of

from fedcof import Fed3R
from fedcof.data import Dirichlet
from fedcof.experiments import Experiment, SettingGrid, one_round
from fedcof.report.tables import Value, by_place, compared, ours, papers, tabulate


@pytest.fixture
def table():
    return tabulate(EXPERIMENT, rows_of(EXPERIMENT, seeds=2))


def test_seeds_become_mean_and_sample_deviation(table):
    value = table.lines[0].values["accuracy"]
    assert value.mean == pytest.approx(41.0)
    assert value.deviation == pytest.approx(2**0.5)


def test_papers_number_stands_beside_its_own_cell_only(table):
    found = [line.values["accuracy"].paper for line in table.lines]
    assert found == [None, 50.0, None, None]
    value = table.lines[1].values["accuracy"]
    assert value.difference == pytest.approx(-9.0)
    assert value.paper_deviation == 0.5


def test_columns_that_do_not_differ_are_said_once(table):
    assert table.columns == ("dataset", "method")
    assert table.common == "net, 3 clients, α 0.1"
    assert table.titles() == [
        "data set",
        "method",
        "accuracy (%)",
        "paper",
        "difference",
        "sent (MB)",
    ]


def test_cells_say_a_dash_where_the_paper_says_nothing(table):
    assert table.cells(table.lines[0]) == ["one", "FedNCM", "41.0 ± 1.4", "–", "–", "2.5 ± 0.0"]
    assert table.cells(table.lines[1])[2:5] == ["41.0 ± 1.4", "50.0 ± 0.5", "−9.0"]


def test_own_data_beside_the_papers_has_no_column_of_the_paper():
    with_paper, own = by_place(EXPERIMENT, rows_of(EXPERIMENT))
    assert "paper" in with_paper.titles()
    assert own.titles() == ["method", "accuracy (%)", "sent (MB)"]


def test_one_seed_has_no_deviation():
    table = tabulate(EXPERIMENT, rows_of(EXPERIMENT))
    assert table.lines[0].values["accuracy"].deviation is None
    assert table.cells(table.lines[0])[-1] == "2.5"


def test_lines_that_would_read_alike_say_in_what_they_differ():
    grid = SettingGrid(("one",), ("net",), (Dirichlet(3, 0.1),), one_round(Fed3R(0.1), Fed3R(1.0)))
    experiment = Experiment("ridges", "", (grid,))
    methods = [line.shown["method"] for line in tabulate(experiment, rows_of(experiment)).lines]
    assert methods == ["Fed3R, ridge 0.1", "Fed3R, ridge 1.0"]


def test_participation_is_said_where_some_took_part_in_rounds():
    rows = rows_of(EXPERIMENT)
    rows[1].setting["participation"] = 0.3
    assert tabulate(EXPERIMENT, rows).common.endswith("30 % of the clients a round")


@pytest.mark.parametrize(
    ("value", "metric", "texts"),
    [
        (Value(3015.26, None, 3000.0, None), "formula_bytes", ("3,015.3", "3,000.0", "+15.3")),
        (Value(0.0104, 0.001, None, None), "formula_bytes", ("0.010 ± 0.001", "–", "–")),
        (Value(41.04, None, 41.2, 0.1), "accuracy", ("41.0", "41.2 ± 0.1", "−0.2")),
        # A difference of condition numbers that are orders of magnitude apart says nothing.
        (Value(1.7e5, None, 6.3e3, None), "condition_within", ("1.7e+05", "6.3e+03", "× 27")),
        (None, "accuracy", ("–", "–", "–")),
    ],
)
def test_numbers_have_the_papers_digits(value, metric, texts):
    assert (ours(value, metric), papers(value, metric), compared(value, metric)) == texts
