import re
from dataclasses import replace

from tiny_experiments import EXPERIMENT, GRID, rows_of

from fedcof.experiments import EXPERIMENTS
from fedcof.report.latex import as_latex
from fedcof.report.sheets import sheets
from fedcof.report.tables import by_place


def latex(experiment, rows):
    found = [sheet for table in by_place(experiment, rows) for sheet in sheets(experiment, table)]
    return as_latex(experiment, found)


def test_what_latex_would_take_for_itself_is_escaped():
    text = latex(EXPERIMENT, rows_of(EXPERIMENT, seeds=2))
    assert r"A title with 5 \% \& more" in text
    assert r"FedCOF, $\gamma$ 0.1 & 41.0 $\pm$ 1.4 & 50.0 $\pm$ 0.5 & $-$9.0 & 2.5" in text


def test_every_row_has_as_many_cells_as_columns():
    text = latex(EXPERIMENT, rows_of(EXPERIMENT))
    for alignment, body in re.findall(r"\\begin{tabular}{(\w+)}(.*?)\\end{tabular}", text, re.S):
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert {row.count("&") + 1 for row in rows} == {len(alignment)}


def test_data_sets_with_the_same_columns_share_a_table():
    text = latex(replace(EXPERIMENT, paper=()), rows_of(EXPERIMENT))
    assert text.count(r"\begin{table}") == 1
    assert r"\textit{one, net, 3 clients, $\alpha$ 0.1, 1 seed}" in text
    assert r"\textit{two, net" in text


def test_grid_says_its_method_once_and_has_a_table_a_metric():
    text = latex(GRID, rows_of(GRID, means_received=3.0))
    assert text.count(r"\begin{table}") == 2
    assert text.count(r"FedCOF, $\gamma$ 0.1") == 1
    assert r"\label{tab:ours-grid-2}" in text


def test_wide_table_is_cut_between_metrics_and_scaled_to_its_column():
    # It once was 440 points wider than the column.
    table1 = EXPERIMENTS["table1"].on("cifar100", "squeezenet1.1")
    text = latex(table1, rows_of(table1, seeds=2, wire_bytes=3_000_000_000, num_means=2900))
    tabulars = re.findall(r"\\begin{tabular}{(\w+)}", text)
    assert len(tabulars) > 1
    assert all(alignment.startswith("lr") for alignment in tabulars)
    assert text.count(r"\resizebox{\ifdim\width>\linewidth") == len(tabulars)


def test_more_rows_than_a_page_holds_become_more_tables():
    table1 = EXPERIMENTS["table1"]
    text = latex(table1, rows_of(table1, wire_bytes=3, num_means=2900))
    tables = text.split(r"\begin{table}")[1:]
    assert len(tables) > 1
    assert max(table.count(r" \\") for table in tables) < 60
