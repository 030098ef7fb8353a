from dataclasses import replace

import pytest
from tiny_experiments import EXPERIMENT, GRID, rows_of

from fedcof.report.sheets import sheets
from fedcof.report.tables import tabulate


def sheets_of(experiment, rows):
    return list(sheets(experiment, tabulate(experiment, rows)))


def test_list_has_a_row_a_setting():
    (sheet,) = sheets_of(EXPERIMENT, rows_of(EXPERIMENT, seeds=2))
    assert sheet.caption == "net, 3 clients, α 0.1, 2 seeds"
    assert sheet.labels == 2
    assert sheet.groups == (3, 1)
    assert sheet.ours == {2, 5}
    assert len(sheet.rows) == 4


def test_grid_has_clients_down_and_means_across():
    accuracy, received = sheets_of(GRID, rows_of(GRID, means_received=3.0))
    assert accuracy.titles == ("method", "clients", "1 mean", "2 means")
    assert accuracy.rows[0] == ("FedCOF, γ 0.1", "10", "40.0 (–)", "40.0 (41.0)")
    assert [row[:2] for row in accuracy.rows] == [
        ("FedCOF, γ 0.1", "10"),
        ("FedCOF, γ 0.1", "20"),
        ("FedCOF, γ 1", "10"),
        ("FedCOF, γ 1", "20"),
    ]
    assert "in brackets the paper" in accuracy.caption
    assert received.rows == [("10", "3.0", "3.0"), ("20", "3.0", "3.0")]  # whatever γ is


def test_no_setting_is_lost_in_a_grid():
    rows = rows_of(GRID, means_received=3.0)
    rows += [replace(row, setting={**row.setting, "ridge": 1.0}) for row in rows]
    (sheet,) = sheets_of(GRID, rows)
    assert len(sheet.rows) == len(GRID.settings()) * 2


@pytest.mark.parametrize(
    ("number", "shown"), [(13, "1 2 5 10 13"), (213, "1 2 5 10 20 50 100 213")]
)
def test_some_rounds_and_the_last_are_listed(number, shown):
    rounds = [
        {"stage": "training-free", "accuracy": 0.01 * index, "formula_bytes": 1}
        for index in range(1, number + 1)
    ]
    experiment = replace(EXPERIMENT, figure="rounds")
    *_, sheet = sheets_of(experiment, rows_of(experiment, rounds=rounds))
    assert " ".join(sheet.titles[2:]) == shown
    assert sheet.rows[0][2:4] == ("1.0", "2.0")
